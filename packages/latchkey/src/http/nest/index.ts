/** Nest, on Express and on Fastify: the module and its decorators, and the interceptors that they use. */
export { IdempotencyContext, IdempotencyStatus, Idempotent } from "./idempotent.ts";
export { type NestProtect, type NestServe, nestContext, nestProtect, nestServe, nestStatus } from "./nest.ts";
export {
  LATCHKEY,
  type LatchkeyAsyncOptions,
  LatchkeyModule,
  type LatchkeyModuleOptions,
  type LatchkeyOptionsFactory,
  type NestDynamicModule,
} from "./nest-module.ts";
export { LatchkeyOpenApi } from "./nest-openapi.ts";
export { type LatchkeyHealth, LatchkeyHealthIndicator } from "./nest-service.ts";
