import { emptyResult } from "../pg-clients/empty-result.ts";
import type { ClientFacade } from "./session.ts";

/** The part of a `pg` client that Drizzle uses inside a transaction. */
export interface DrizzlePgClient {
  query(config: unknown, values?: unknown): Promise<unknown>;
}

/** A facade for a client on which a transaction is open: Drizzle's BEGIN and its COMMIT or ROLLBACK are not sent. */
export function pgClientFacade(client: DrizzlePgClient): ClientFacade {
  let stage: "opening" | "opened" | "running" | "ended" | "closed" = "opening";
  const isDrizzles = (text: string): boolean => {
    if (stage === "opening" && /^begin\b/u.test(text)) stage = "opened";
    else if (stage === "ended" && /^(?:commit|rollback)$/u.test(text)) stage = "closed";
    else return false;
    return true;
  };
  return {
    client: {
      query: async (config: unknown, values?: unknown) =>
        isDrizzles(statementText(config)) ? emptyResult : client.query(config, values),
    },
    started() {
      if (stage !== "opened") return false;
      stage = "running";
      return true;
    },
    ended() {
      stage = "ended";
    },
  };
}

function statementText(config: unknown): string {
  if (typeof config !== "object" || config === null || !("text" in config)) return "";
  return typeof config.text === "string" ? config.text.trim() : "";
}
