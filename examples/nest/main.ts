/**
 * Orders on Nest and Postgres: DATABASE_URL=postgres://… npm start -w latchkey-example-nest
 * Node runs no files with decorators, so `npm start` compiles them first, as `nest build` does.
 */
import "reflect-metadata";
import { NestFactory } from "@nestjs/core";
import { DocumentBuilder, SwaggerModule } from "@nestjs/swagger";
import { LatchkeyOpenApi } from "latchkey/nest";
import { AppModule } from "./app.module.ts";

const app = await NestFactory.create(AppModule, { rawBody: true, logger: ["error", "warn"] });
app.enableShutdownHooks();
const config = new DocumentBuilder().setTitle("Orders").build();
SwaggerModule.setup("docs", app, () =>
  app.get(LatchkeyOpenApi).describe(SwaggerModule.createDocument(app, config)),
);
await app.listen(Number(process.env.PORT ?? 3000), "127.0.0.1");
const url = await app.getUrl();
console.log(`on ${url}, documents on ${url}/docs`);
console.log("Send it twice: one order, and the second answer has Idempotent-Replayed: true");
console.log(
  `  curl -i ${url}/orders -H 'Idempotency-Key: order-1' -H 'Content-Type: application/json' -d '{"item": "book"}'`,
);
