/** Authentication before the protected route, which takes the tenant from what it has found out. */
import { Passport } from "passport";
import { Strategy } from "passport-http-bearer";
import type { Traits } from "./table.ts";

interface Account {
  readonly account: string;
}

/** Every account has the same token here; whose it is stands beside it. */
export const token = "token-of-an-account";
const signedIn = { headers: [["Authorization", `Bearer ${token}`] as const] };

export const strategy = () =>
  new Strategy(
    { passReqToCallback: true },
    (
      req: { headers: Record<string, string> },
      given: string,
      done: (error: null, user: Account | false) => void,
    ) => done(null, given === token && { account: String(req.headers["x-tenant"]) }),
  );

export const accountOf = (holder: unknown): string => (holder as { user: Account }).user.account;

export function passportOfNode(): readonly unknown[] {
  const passport = new Passport();
  passport.use(strategy());
  return [passport.initialize(), passport.authenticate("bearer", { session: false })];
}

export const accounts: Traits<"accounts"> = { accounts: { request: signedIn } };
