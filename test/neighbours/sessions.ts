/** Sessions that the handler writes to. The cookie that a first answer sets is the session's own business: no replay has it. */
import { randomBytes } from "node:crypto";
import fastifyCookie from "@fastify/cookie";
import fastifySecureSession from "@fastify/secure-session";
import fastifySession from "@fastify/session";
import expressSession from "express-session";
import { CookieStore, type Session, sessionMiddleware } from "hono-sessions";
import koaSession from "koa-session";
import type { Neighbours } from "./frame.ts";
import type { ExpressMount } from "./front-ends/express.ts";
import { nestBefore, nestFastifyBefore } from "./front-ends/nest.ts";
import { nodeBefore } from "./front-ends/node.ts";

const secret = "a secret of thirty-two characters";
const sessionOfExpress = () => expressSession({ secret, resave: false, saveUninitialized: false });

/** Where middleware of these packages keeps what belongs to one visitor. */
interface Visit {
  session: { orders?: number };
}

function count(visit: unknown): void {
  const { session } = visit as Visit;
  session.orders = (session.orders ?? 0) + 1;
}

const onExpress: ExpressMount = ({ app, express, protect, handler }) => {
  app.use(express.json(), sessionOfExpress());
  const counting = protect(
    (req, res) => {
      count(req);
      return handler(req, res);
    },
    { fingerprint: "parsed" },
  );
  app.post("/run", counting);
};

const cookie = { leftOut: ["set-cookie"], random: ["set-cookie"] };

export const sessions: Neighbours<"sessions" | "secureSessions"> = {
  sessions: {
    ...cookie,
    on: {
      express: onExpress,
      express4: onExpress,
      async fastify({ app, protect, handler }) {
        await app.register(fastifyCookie);
        await app.register(fastifySession, { secret, cookie: { secure: false }, saveUninitialized: false });
        const counting = protect((request, reply) => {
          count(request);
          return handler(request, reply);
        });
        app.post("/run", counting);
      },
      koa({ app, protect, handler }) {
        app.keys = [secret];
        app.use(koaSession({ signed: true }, app));
        const counting = protect((ctx) => {
          count(ctx);
          return handler(ctx);
        });
        app.use(counting);
      },
      hono({ app, protect, handler }) {
        app.use(sessionMiddleware({ store: new CookieStore(), encryptionKey: secret }) as never);
        const counting = protect((c) => {
          const session: Session<{ orders: number }> = c.get("session");
          session.set("orders", (session.get("orders") ?? 0) + 1);
          return handler(c);
        });
        app.post("/run", counting);
      },
      nest: nestBefore(() => [
        sessionOfExpress(),
        (req: unknown, _res: unknown, next: () => void) => {
          count(req);
          next();
        },
      ]),
      nestFastify: nestFastifyBefore(async (app) => {
        await app.register(fastifyCookie);
        await app.register(fastifySession, { secret, cookie: { secure: false }, saveUninitialized: false });
        app.addHook("preHandler", async (request) => count(request));
      }),
      node: nodeBefore(() => [sessionOfExpress()]),
    },
  },
  secureSessions: {
    ...cookie,
    on: {
      async fastify({ app, protect, handler }) {
        await app.register(fastifySecureSession, { key: randomBytes(32) });
        const counting = protect((request, reply) => {
          request.session.set("orders" as never, 1 as never);
          return handler(request, reply);
        });
        app.post("/run", counting);
      },
    },
  },
};
