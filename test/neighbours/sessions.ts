/** Sessions that the handler writes to. The cookie that a first answer sets is the session's own business: no replay has it. */
import expressSession from "express-session";
import type { Traits } from "./table.ts";

export const secret = "a secret of thirty-two characters";
export const sessionOfExpress = () => expressSession({ secret, resave: false, saveUninitialized: false });

/** Where middleware of these packages keeps what belongs to one visitor. */
interface Visit {
  session: { orders?: number };
}

export function count(visit: unknown): void {
  const { session } = visit as Visit;
  session.orders = (session.orders ?? 0) + 1;
}

const cookie = { leftOut: ["set-cookie"], random: ["set-cookie"] };

export const sessions: Traits<"sessions" | "secureSessions"> = { sessions: cookie, secureSessions: cookie };
