import type { IncomingMessage, ServerResponse } from "node:http";
import fastifyCompress from "@fastify/compress";
import fastifyCookie from "@fastify/cookie";
import fastifyEtag from "@fastify/etag";
import fastifyHelmet from "@fastify/helmet";
import { Authenticator } from "@fastify/passport";
import fastifyRateLimit from "@fastify/rate-limit";
import fastifySecureSession from "@fastify/secure-session";
import fastifySession from "@fastify/session";
import type { NestExpressApplication } from "@nestjs/platform-express";
import type { NestFastifyApplication } from "@nestjs/platform-fastify";
import { fastifyRequestHandler } from "@trpc/server/adapters/fastify";
import {
  type NodeHTTPRequest,
  type NodeHTTPResponse,
  nodeHTTPRequestHandler,
} from "@trpc/server/adapters/node-http";
import compression from "compression";
import type { FastifyReply, FastifyRequest } from "fastify";
import helmet from "helmet";
import responseTime from "response-time";
import { passportOfNode, strategy } from "../../../neighbours/accounts.ts";
import { answerOf, bySupertest, messageOf } from "../../../neighbours/callers.ts";
import { corsOptions } from "../../../neighbours/headers.ts";
import { limitOfExpress } from "../../../neighbours/limits.ts";
import { byMorgan, byPino } from "../../../neighbours/loggers.ts";
import { routerOf, yogaOf, yogaOnFastify } from "../../../neighbours/schemas.ts";
import { count, secret, sessionOfExpress } from "../../../neighbours/sessions.ts";
import { type Starts, startsOf } from "../../../neighbours/starts.ts";
import {
  type NestMount,
  nestBefore,
  nestFastifyBefore,
  startNestOnExpress,
  startNestOnFastify,
} from "./frame.ts";
import { around } from "./parts.ts";

export const neighbours: Readonly<Record<string, Starts>> = {
  nest: startsOf<NestMount<NestExpressApplication>>(startNestOnExpress, {
    helmet: nestBefore(() => [helmet()]),
    cors: {
      setUp: ({ app }) => {
        app.enableCors(corsOptions);
      },
    },
    compression: nestBefore(() => [compression()]),
    etag: { setUp: ({ app }) => void app.set("etag", "strong") as undefined },
    responseTime: nestBefore(() => [responseTime()]),
    sessions: nestBefore(() => [
      sessionOfExpress(),
      (req: unknown, _res: unknown, next: () => void) => {
        count(req);
        next();
      },
    ]),
    accounts: nestBefore(passportOfNode),
    morgan: { setUp: ({ app, world }) => void app.use(byMorgan(world)) as undefined },
    pino: { setUp: ({ app, world }) => void app.use(byPino(world)) as undefined },
    rateLimits: nestBefore(limitOfExpress),
    graphqlYoga: {
      handle: (world) => {
        const yoga = yogaOf(world);
        return (req: IncomingMessage, res: ServerResponse) => yoga(req, res);
      },
    },
    trpc: {
      handle: (world) => {
        const router = routerOf(world);
        return (req: NodeHTTPRequest, res: NodeHTTPResponse) =>
          nodeHTTPRequestHandler({ router, req, res, path: "run" });
      },
    },
    callers: { setUp: ({ app }) => bySupertest(app.getHttpServer()) },
    nestParts: around(),
  }),
  nestFastify: startsOf<NestMount<NestFastifyApplication>>(startNestOnFastify, {
    helmet: nestFastifyBefore((app) => app.register(fastifyHelmet)),
    cors: {
      setUp: ({ app }) => {
        app.enableCors(corsOptions);
      },
    },
    compression: nestFastifyBefore((app) => app.register(fastifyCompress)),
    etag: nestFastifyBefore((app) => app.register(fastifyEtag)),
    sessions: nestFastifyBefore(async (app) => {
      await app.register(fastifyCookie);
      await app.register(fastifySession, { secret, cookie: { secure: false }, saveUninitialized: false });
      app.addHook("preHandler", async (request) => count(request));
    }),
    accounts: nestFastifyBefore(async (app) => {
      const passport = new Authenticator();
      passport.use("bearer", strategy());
      await app.register(fastifySecureSession, { key: Buffer.alloc(32, 7) });
      await app.register(passport.initialize());
      app.addHook("preValidation", passport.authenticate("bearer", { session: false }));
    }),
    // The front end gives every app Fastify's own logger.
    pino: {},
    rateLimits: nestFastifyBefore((app) => app.register(fastifyRateLimit, { max: 100 })),
    graphqlYoga: {
      handle: (world) => {
        const yoga = yogaOf(world);
        return (request: FastifyRequest, reply: FastifyReply) => yogaOnFastify(yoga, request, reply);
      },
    },
    trpc: {
      handle: (world) => {
        const router = routerOf(world);
        return (req: FastifyRequest, res: FastifyReply) =>
          fastifyRequestHandler({ router, req, res, path: "run" });
      },
    },
    callers: {
      setUp: ({ app }) => ({
        async call(call) {
          const { headers, body } = messageOf(call);
          const answer = await app.inject({ method: "POST", url: "/run", headers, payload: body });
          return answerOf(answer.statusCode, answer.headers, answer.rawPayload);
        },
      }),
    },
    nestParts: around(),
  }),
};
