/** Middleware that sets headers or encodes answers. */
import fastifyCompress from "@fastify/compress";
import fastifyCors from "@fastify/cors";
import fastifyEtag from "@fastify/etag";
import fastifyHelmet from "@fastify/helmet";
import koaCors from "@koa/cors";
import compression from "compression";
import cors from "cors";
import helmet from "helmet";
import { compress } from "hono/compress";
import { cors as honoCors } from "hono/cors";
import { etag as honoEtag } from "hono/etag";
import { requestId } from "hono/request-id";
import { secureHeaders } from "hono/secure-headers";
import { timing } from "hono/timing";
import koaCompress from "koa-compress";
import koaConditionalGet from "koa-conditional-get";
import koaEtag from "koa-etag";
import koaHelmet from "koa-helmet";
import responseTime from "response-time";
import type { HttpCall } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import type { Neighbours } from "./frame.ts";
import { type ExpressMount, expressBefore } from "./front-ends/express.ts";
import { fastifyBefore } from "./front-ends/fastify.ts";
import { honoBefore } from "./front-ends/hono.ts";
import { koaBefore } from "./front-ends/koa.ts";
import { nestBefore, nestFastifyBefore } from "./front-ends/nest.ts";
import { nodeBefore } from "./front-ends/node.ts";

const corsOptions = { origin: "https://shop.example", credentials: true };
const fromShop: HttpCall = { headers: [["Origin", corsOptions.origin]] };
const gzip: HttpCall = { headers: [["Accept-Encoding", "gzip"]] };

const strongEtag: ExpressMount = (parts) => {
  parts.app.set("etag", "strong");
  return expressBefore(() => [])(parts);
};

export const headers: Neighbours<"helmet" | "cors" | "compression" | "etag" | "responseTime"> = {
  helmet: {
    on: {
      express: expressBefore(() => [helmet()]),
      express4: expressBefore(() => [helmet()]),
      fastify: fastifyBefore((app) => app.register(fastifyHelmet)),
      koa: koaBefore(() => [koaHelmet()]),
      hono: honoBefore(secureHeaders()),
      nest: nestBefore(() => [helmet()]),
      nestFastify: nestFastifyBefore((app) => app.register(fastifyHelmet)),
      node: nodeBefore(() => [helmet()]),
    },
  },
  cors: {
    request: fromShop,
    on: {
      express: expressBefore(() => [cors(corsOptions)]),
      express4: expressBefore(() => [cors(corsOptions)]),
      fastify: fastifyBefore((app) => app.register(fastifyCors, corsOptions)),
      koa: koaBefore(() => [koaCors(corsOptions)]),
      hono: honoBefore(honoCors(corsOptions)),
      nest: {
        setUp: ({ app }) => {
          app.enableCors(corsOptions);
        },
      },
      nestFastify: {
        setUp: ({ app }) => {
          app.enableCors(corsOptions);
        },
      },
      node: nodeBefore(() => [cors(corsOptions)]),
    },
  },
  compression: {
    request: gzip,
    on: {
      express: expressBefore(() => [compression()]),
      express4: expressBefore(() => [compression()]),
      fastify: fastifyBefore((app) => app.register(fastifyCompress)),
      koa: koaBefore(() => [koaCompress()]),
      hono: honoBefore(compress()),
      nest: nestBefore(() => [compression()]),
      nestFastify: nestFastifyBefore((app) => app.register(fastifyCompress)),
      node: nodeBefore(() => [compression()]),
    },
  },
  etag: {
    // A stream is held, so that the middleware finds it whole and gives it the ETag it would not have had.
    answers: ["json", "text", "none"],
    on: {
      express: strongEtag,
      express4: strongEtag,
      fastify: fastifyBefore((app) => app.register(fastifyEtag)),
      koa: koaBefore(() => [koaConditionalGet(), koaEtag()]),
      hono: honoBefore(honoEtag()),
      nest: { setUp: ({ app }) => void app.set("etag", "strong") as undefined },
      nestFastify: nestFastifyBefore((app) => app.register(fastifyEtag)),
    },
  },
  responseTime: {
    random: ["x-response-time", "server-timing", "x-request-id"],
    on: {
      express: expressBefore(() => [responseTime()]),
      express4: expressBefore(() => [responseTime()]),
      hono: honoBefore(timing(), requestId()),
      nest: nestBefore(() => [responseTime()]),
      node: nodeBefore(() => [responseTime()]),
    },
  },
};
