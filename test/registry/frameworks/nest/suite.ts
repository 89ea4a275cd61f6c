/** Decorators are called as functions: Node runs no files that have them. */
import "reflect-metadata";
import { type RequestListener, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import {
  Controller,
  createParamDecorator,
  Get,
  HttpException,
  Module,
  Post,
  Req,
  Res,
  StreamableFile,
  type Type,
  UseInterceptors,
} from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { ExpressAdapter, type NestExpressApplication } from "@nestjs/platform-express";
import { FastifyAdapter, type NestFastifyApplication } from "@nestjs/platform-fastify";
import type { Response } from "express";
import type { FastifyReply } from "fastify";
import {
  nestContext,
  nestProtect,
  nestServe,
  nestStatus,
} from "../../../../packages/latchkey/src/http/nest/nest.ts";
import type { NestRequest } from "../../../../packages/latchkey/src/http/nest/nest-types.ts";
import type { HttpOptions } from "../../../../packages/latchkey/src/http/protocol/http-options.ts";
import type {
  AppUnderTest,
  HandlerAnswer,
  ServedInput,
} from "../../../../packages/latchkey-conformance/src/http-conformance/case.ts";
import { lookup, type SuiteApp, statusOf } from "../../../http/suite-app.ts";
import { listen } from "../../../support/listen.ts";

const bodyLimit = 20 * 1024 * 1024;
const options = { rawBody: true, logger: false, abortOnError: false } as const;

/** How a handler answers: with what it returns, or by itself. */
type NestAnswering = "returns" | "@Res";

export const apps: readonly SuiteApp[] = (["returns", "@Res"] as const).flatMap((answering) => {
  const kind = { seesFieldLines: true, oneOfItsKind: answering === "returns" };
  return [
    {
      ...kind,
      name: `Nest on Express, ${answering}`,
      serve: async <Tx>(app: AppUnderTest<Tx>) => listen(await nestExpressListener(app, answering)),
    },
    {
      ...kind,
      name: `Nest on Fastify, ${answering}`,
      serve: async <Tx>(app: AppUnderTest<Tx>) => listen(await nestFastifyListener(app, answering)),
    },
  ];
});

async function nestExpressListener<Tx>(
  under: AppUnderTest<Tx>,
  answering: NestAnswering,
): Promise<RequestListener> {
  const app = await NestFactory.create<NestExpressApplication>(
    moduleOf(under, answering),
    new ExpressAdapter(),
    options,
  );
  app.useBodyParser("json", { limit: bodyLimit, strict: false });
  app.useBodyParser("raw", { limit: bodyLimit, type: "*/*" });
  await app.init();
  return app.getHttpAdapter().getInstance();
}

async function nestFastifyListener<Tx>(
  under: AppUnderTest<Tx>,
  answering: NestAnswering,
): Promise<RequestListener> {
  const adapter = new FastifyAdapter({ bodyLimit, onProtoPoisoning: "ignore" });
  const app = await NestFactory.create<NestFastifyApplication>(moduleOf(under, answering), adapter, options);
  app.useBodyParser("application/json", { bodyLimit });
  app.useBodyParser(["text/plain", "*"], { bodyLimit });
  await app.init();
  const instance = app.getHttpAdapter().getInstance();
  await instance.ready();
  return instance.routing;
}

interface AnyRequest {
  readonly body: unknown;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}
type AnyResponse = Response | FastifyReply;

function moduleOf<Tx>(under: AppUnderTest<Tx>, answering: NestAnswering): Type {
  const { latchkey, route, served, settings, tenant, principal } = under;
  const options: HttpOptions<NestRequest> = {
    ...settings,
    tenant: ({ headers }) => tenant(lookup(headers)),
    principal: ({ headers }) => principal(lookup(headers)),
  };
  const protect = nestProtect(latchkey, options);
  class Routes {
    async run(req: AnyRequest, res: AnyResponse, context: never): Promise<unknown> {
      const answer = await route.handle(async () => sentBytes(req), context);
      setHead(res, answer);
      return answering === "returns" ? valueIn(answer) : sendBody(res, answer);
    }

    async serve(req: AnyRequest): Promise<ServedInput | undefined> {
      return served?.toInput(async () => sentBytes(req)).catch(asNestsOwn);
    }

    status(): void {}
  }
  const { prototype } = Routes;
  Req()(prototype, "run", 0);
  (answering === "returns" ? Res({ passthrough: true }) : Res())(prototype, "run", 1);
  createParamDecorator(nestContext)()(prototype, "run", 2);
  const method = Object.getOwnPropertyDescriptor(prototype, "run") ?? {};
  UseInterceptors(protect(route.operation))(prototype, "run", method);
  (route.method === "GET" ? Get : Post)(route.path)(prototype, "run", method);
  if (served !== undefined) {
    const serveMethod = Object.getOwnPropertyDescriptor(prototype, "serve") ?? {};
    Req()(prototype, "serve", 0);
    UseInterceptors(nestServe(latchkey, options)(served.operation))(prototype, "serve", serveMethod);
    (served.method === "GET" ? Get : Post)(served.path)(prototype, "serve", serveMethod);
  }
  if (settings.statusPath !== undefined) {
    const statusMethod = Object.getOwnPropertyDescriptor(prototype, "status") ?? {};
    UseInterceptors(nestStatus(latchkey, options))(prototype, "status", statusMethod);
    Get(`${settings.statusPath}/:id`)(prototype, "status", statusMethod);
  }
  Controller()(Routes);
  class App {}
  Module({ controllers: [Routes] })(App);
  return App;
}

/** Nest takes the status of its own exceptions alone. */
function asNestsOwn(error: unknown): never {
  throw new HttpException("failed", statusOf(error));
}

/** What was sent, as far as a handler can still tell. */
function sentBytes({ body }: AnyRequest): Uint8Array {
  if (body === undefined) return new Uint8Array(0);
  return body instanceof Uint8Array ? body : Buffer.from(JSON.stringify(body));
}

function setHead(res: AnyResponse, { status, headers = [], error }: HandlerAnswer): void {
  res.status(status);
  for (const [name, value] of headers) {
    if (res instanceof ServerResponse) (res as Response).append(name, value);
    else {
      const before = name === "Set-Cookie" ? undefined : res.getHeader(name);
      (res as FastifyReply).header(name, before === undefined ? value : [before, value].flat());
    }
  }
  if (error !== undefined) throw error;
}

function valueIn({ body }: HandlerAnswer): unknown {
  if (body === undefined || typeof body === "string") return body;
  return body instanceof Uint8Array ? new StreamableFile(body) : new StreamableFile(Readable.from(body));
}

function sendBody(res: AnyResponse, { body }: HandlerAnswer): unknown {
  const payload =
    body === undefined || typeof body === "string" || body instanceof Uint8Array ? body : Readable.from(body);
  if (!(res instanceof ServerResponse)) return res.send(payload);
  return payload instanceof Readable ? payload.pipe(res) : res.end(payload);
}
