import type { Latchkey, Redact, Republish, Worker } from "latchkey";
import type { History } from "./history.ts";

/** Who looks at the console. */
export interface ConsoleUser {
  /** Kept with what the person decides. */
  readonly operator: string;
  /** Default false: may settle, redrive and give up. */
  readonly readOnly?: boolean;
}

interface CommonOptions<Tx> {
  readonly latchkey: Pick<Latchkey<Tx>, "runtime" | "settle" | "overview">;
  /** No user may settle, redrive or give up here. Default false. */
  readonly readOnly?: boolean;
  /**
   * What is shown of stored inputs, results, answers, payloads and of the fields of summaries. True: their structure with every
   * value masked. False: all of it. A function: what it returns. Default: the latchkey's `redact`, else true.
   */
  readonly redact?: boolean | Redact;
  /** The path that the console is mounted under, as browsers see it, such as `/console`. Default: none. */
  readonly basePath?: string;
  /** What is watched, shown beside the name, such as `production`. Default: nothing. */
  readonly title?: string;
  /** Publishes a dead message again. Default: messages cannot be redriven here. */
  readonly republish?: Republish;
  /** The worker of this process, whose services the overview shows. Default: none are shown. */
  readonly worker?: Pick<Worker, "health">;
  /** What `createHistory` returned, for the overview's charts. Default: there are none. */
  readonly history?: History;
  /**
   * Origins that browsers may act from, such as `https://admin.example.com`, where a proxy does not hand on the `Host` that
   * they ask for. Default: the origin of the request's own URL.
   */
  readonly origins?: readonly string[];
}

/** One secret for all: people sign in with it and with their name. */
export interface TokenAccess {
  /** At least 16 characters. */
  readonly token: string;
  readonly authorize?: never;
}

/** The host's own authentication. */
export interface HostAccess {
  /** Says who asks; null: no one who may look. */
  readonly authorize: (request: Request) => ConsoleUser | null | Promise<ConsoleUser | null>;
  readonly token?: never;
}

export type ConsoleOptions<Tx> = CommonOptions<Tx> & (TokenAccess | HostAccess);

const names: readonly string[] = [
  "latchkey",
  "token",
  "authorize",
  "readOnly",
  "redact",
  "basePath",
  "title",
  "republish",
  "worker",
  "history",
  "origins",
] satisfies readonly (keyof ConsoleOptions<unknown>)[];

const tokenLengthMin = 16;

/** @throws {TypeError} for an unknown option, or one that makes no sense. */
export function checkConsoleOptions<Tx>(options: ConsoleOptions<Tx>): void {
  const unknown = Object.keys(options).find((name) => !names.includes(name));
  if (unknown !== undefined) throw new TypeError(`consoleHandler: unknown option ${JSON.stringify(unknown)}`);
  const { latchkey, token, authorize, basePath = "", origins = [] } = options;
  if (typeof latchkey?.settle !== "function" || latchkey.runtime === undefined) {
    throw new TypeError("consoleHandler: latchkey must be what createLatchkey returned");
  }
  if ((token === undefined) === (authorize === undefined)) {
    throw new TypeError("consoleHandler: pass one of token and authorize");
  }
  if (token !== undefined && (typeof token !== "string" || token.length < tokenLengthMin)) {
    throw new TypeError(`consoleHandler: token must have at least ${tokenLengthMin} characters`);
  }
  if (basePath !== "" && !/^(?:\/[\w.~-]+)+$/u.test(basePath)) {
    throw new TypeError("consoleHandler: basePath must begin with / and not end with one, such as /console");
  }
  for (const origin of origins) {
    if (!URL.canParse(origin) || new URL(origin).origin !== origin) {
      throw new TypeError(
        `consoleHandler: ${JSON.stringify(origin)} is no origin, such as https://admin.example.com`,
      );
    }
  }
}
