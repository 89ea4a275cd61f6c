/** Identifies the user, and checks that a request comes from the console's own page. */
import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import type { Clock } from "latchkey";
import type { ConsoleUser, HostAccess, TokenAccess } from "./options.ts";
import { Refusal } from "./replies.ts";

export interface Access {
  /** Null: the request has no valid credentials. */
  userOf(request: Request): Promise<ConsoleUser | null>;
  /** Null: there is no sign-in page. */
  readonly signIn: SignIn | null;
}

export interface SignIn {
  /** The `Set-Cookie` of a new session; null: the token is wrong. */
  begin(request: Request, token: unknown, operator: string): string | null;
  end(request: Request): string;
}

const cookieName = "latchkey_console";
const sessionMs = 12 * 60 * 60 * 1_000;
/** How long the answer to a wrong token is delayed. The wait costs the process nothing. */
export const wrongTokenPauseMs = 500;

export function accessOf(
  options: (TokenAccess | HostAccess) & { readonly basePath?: string },
  clock: Pick<Clock, "wallMs">,
): Access {
  const { authorize } = options;
  if (authorize !== undefined) {
    return { userOf: async (request) => authorize(request), signIn: null };
  }
  const { token, basePath = "" } = options;
  const secret = createHmac("sha256", token).update("latchkey console session").digest();
  const path = basePath === "" ? "/" : basePath;
  const cookie = (request: Request, value: string, ageSeconds: number) =>
    [
      `${cookieName}=${value}`,
      `Path=${path}`,
      `Max-Age=${ageSeconds}`,
      "HttpOnly",
      "SameSite=Strict",
      ...(new URL(request.url).protocol === "https:" ? ["Secure"] : []),
    ].join("; ");
  return {
    async userOf(request) {
      const bearer = /^Bearer (.+)$/iu.exec(request.headers.get("authorization") ?? "")?.[1];
      if (bearer !== undefined) {
        const operator = request.headers.get("x-latchkey-operator")?.trim() ?? "";
        return isSame(bearer, token) ? { operator: operator === "" ? "token" : operator } : null;
      }
      return sessionOf(request, secret, clock.wallMs());
    },
    signIn: {
      begin: (request, given, operator) =>
        typeof given === "string" && isSame(given, token)
          ? cookie(
              request,
              sealed({ operator, until: clock.wallMs() + sessionMs }, secret),
              sessionMs / 1_000,
            )
          : null,
      end: (request) => cookie(request, "", 0),
    },
  };
}

/** Takes the same time for every wrong text, whatever its length. */
function isSame(given: string, wanted: string): boolean {
  const digest = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(given), digest(wanted));
}

interface SealedSession {
  readonly operator: string;
  readonly until: number;
}

function sealed(session: SealedSession, secret: Buffer): string {
  const body = Buffer.from(JSON.stringify(session)).toString("base64url");
  return `${body}.${createHmac("sha256", secret).update(body).digest("base64url")}`;
}

function sessionOf(request: Request, secret: Buffer, now: number): ConsoleUser | null {
  const cookies = (request.headers.get("cookie") ?? "").split(/;\s*/u);
  const value = cookies.find((one) => one.startsWith(`${cookieName}=`))?.slice(cookieName.length + 1) ?? "";
  const [body = "", mark = ""] = value.split(".");
  if (body === "" || !isSame(mark, createHmac("sha256", secret).update(body).digest("base64url")))
    return null;
  const session: SealedSession = JSON.parse(Buffer.from(body, "base64url").toString("utf8"));
  return session.until > now ? { operator: session.operator } : null;
}

/**
 * Another site's page can make a browser send the user's cookies. It cannot set this header without a preflight request,
 * which is never granted, and it cannot choose its `Origin`.
 *
 * @throws {Refusal}
 */
export function checkOwnPage(request: Request, origins: readonly string[]): void {
  const { headers } = request;
  const own = [new URL(request.url).origin, ...origins];
  const origin = headers.get("origin");
  const hasToken = headers.get("authorization") !== null;
  const isOwn = origin === null ? hasToken : own.includes(origin);
  const site = headers.get("sec-fetch-site");
  const isNear = site === null || site === "same-origin" || site === "none" || (isOwn && origins.length > 0);
  if (isOwn && isNear && headers.get("x-latchkey-console") === "1") return;
  throw new Refusal(
    403,
    "Nothing was done. The request did not come from the console's own page.",
    "Open the console at its own address. If a proxy changes the Host, add that address to `origins`.",
  );
}
