/** Authentication before the protected route, which takes the tenant from what it has found out. */
import { Authenticator } from "@fastify/passport";
import fastifySecureSession from "@fastify/secure-session";
import { bearerAuth } from "hono/bearer-auth";
import { KoaPassport } from "koa-passport";
import { Passport } from "passport";
import { Strategy } from "passport-http-bearer";
import type { Neighbours } from "./frame.ts";
import type { ExpressMount } from "./front-ends/express.ts";
import { nestBefore, nestFastifyBefore } from "./front-ends/nest.ts";
import { nodeBefore } from "./front-ends/node.ts";

interface Account {
  readonly account: string;
}

/** Every account has the same token here; whose it is stands beside it. */
const token = "token-of-an-account";
const signedIn = { headers: [["Authorization", `Bearer ${token}`] as const] };

const strategy = () =>
  new Strategy(
    { passReqToCallback: true },
    (
      req: { headers: Record<string, string> },
      given: string,
      done: (error: null, user: Account | false) => void,
    ) => done(null, given === token && { account: String(req.headers["x-tenant"]) }),
  );

const accountOf = (holder: unknown): string => (holder as { user: Account }).user.account;

const onExpress: ExpressMount = ({ app, express, protect, handler }) => {
  const passport = new Passport();
  passport.use(strategy());
  app.use(express.json(), passport.initialize(), passport.authenticate("bearer", { session: false }));
  app.post("/run", protect(handler, { tenant: accountOf, fingerprint: "parsed" }));
};

function passportOfNode(): readonly unknown[] {
  const passport = new Passport();
  passport.use(strategy());
  return [passport.initialize(), passport.authenticate("bearer", { session: false })];
}

export const accounts: Neighbours<"accounts"> = {
  accounts: {
    request: signedIn,
    on: {
      express: onExpress,
      express4: onExpress,
      async fastify({ app, protect, handler }) {
        const passport = new Authenticator();
        passport.use("bearer", strategy());
        await app.register(fastifySecureSession, { key: Buffer.alloc(32, 7) });
        await app.register(passport.initialize());
        const preValidation = passport.authenticate("bearer", { session: false });
        app.post("/run", { preValidation }, protect(handler, { tenant: accountOf }));
      },
      koa({ app, protect, handler }) {
        const passport = new KoaPassport();
        passport.use(strategy());
        app.use(passport.initialize()).use(passport.authenticate("bearer", { session: false }));
        app.use(protect(handler, { tenant: (ctx) => accountOf(ctx.state) }));
      },
      hono({ app, protect, handler }) {
        app.use(bearerAuth({ token }));
        app.post("/run", protect(handler));
      },
      nest: nestBefore(passportOfNode),
      nestFastify: nestFastifyBefore(async (app) => {
        const passport = new Authenticator();
        passport.use("bearer", strategy());
        await app.register(fastifySecureSession, { key: Buffer.alloc(32, 7) });
        await app.register(passport.initialize());
        app.addHook("preValidation", passport.authenticate("bearer", { session: false }));
      }),
      node: nodeBefore(passportOfNode),
    },
  },
};
