import { randomBytes } from "node:crypto";
import fastifyCompress from "@fastify/compress";
import fastifyCookie from "@fastify/cookie";
import fastifyCors from "@fastify/cors";
import fastifyEtag from "@fastify/etag";
import fastifyHelmet from "@fastify/helmet";
import { Authenticator } from "@fastify/passport";
import fastifyRateLimit from "@fastify/rate-limit";
import fastifySecureSession from "@fastify/secure-session";
import fastifySession from "@fastify/session";
import { fastifyRequestHandler } from "@trpc/server/adapters/fastify";
import { accountOf, strategy } from "../../../neighbours/accounts.ts";
import { answerOf, messageOf } from "../../../neighbours/callers.ts";
import { corsOptions } from "../../../neighbours/headers.ts";
import { routerOf, yogaOf, yogaOnFastify } from "../../../neighbours/schemas.ts";
import { count, secret } from "../../../neighbours/sessions.ts";
import { type Starts, startsOf } from "../../../neighbours/starts.ts";
import { type FastifyMount, fastifyBefore, startFastify } from "./frame.ts";

export const neighbours: Readonly<Record<string, Starts>> = {
  fastify: startsOf<FastifyMount>(startFastify, {
    helmet: fastifyBefore((app) => app.register(fastifyHelmet)),
    cors: fastifyBefore((app) => app.register(fastifyCors, corsOptions)),
    compression: fastifyBefore((app) => app.register(fastifyCompress)),
    etag: fastifyBefore((app) => app.register(fastifyEtag)),
    async sessions({ app, protect, handler }) {
      await app.register(fastifyCookie);
      await app.register(fastifySession, { secret, cookie: { secure: false }, saveUninitialized: false });
      const counting = protect((request, reply) => {
        count(request);
        return handler(request, reply);
      });
      app.post("/run", counting);
    },
    async secureSessions({ app, protect, handler }) {
      await app.register(fastifySecureSession, { key: randomBytes(32) });
      const counting = protect((request, reply) => {
        request.session.set("orders" as never, 1 as never);
        return handler(request, reply);
      });
      app.post("/run", counting);
    },
    async accounts({ app, protect, handler }) {
      const passport = new Authenticator();
      passport.use("bearer", strategy());
      await app.register(fastifySecureSession, { key: Buffer.alloc(32, 7) });
      await app.register(passport.initialize());
      const preValidation = passport.authenticate("bearer", { session: false });
      app.post("/run", { preValidation }, protect(handler, { tenant: accountOf }));
    },
    // The front end gives every app Fastify's own logger.
    pino({ app, protect, handler }) {
      app.post("/run", protect(handler));
    },
    rateLimits: fastifyBefore((app) => app.register(fastifyRateLimit, { max: 100, timeWindow: 60_000 })),
    graphqlYoga({ app, world, protect }) {
      const yoga = yogaOf(world);
      app.post(
        "/run",
        protect((request, reply) => yogaOnFastify(yoga, request, reply)),
      );
    },
    trpc({ app, world, protect }) {
      const router = routerOf(world);
      app.post(
        "/run",
        protect((req, res) => fastifyRequestHandler({ router, req, res, path: "run" })),
      );
    },
    callers({ app, protect, handler }) {
      app.post("/run", protect(handler));
      return {
        async call(call) {
          const { headers, body } = messageOf(call);
          const answer = await app.inject({ method: "POST", url: "/run", headers, payload: body });
          return answerOf(answer.statusCode, answer.headers, answer.rawPayload);
        },
      };
    },
  }),
};
