import type { Latchkey, Redact, Republish, Worker } from "latchkey";
import type { History } from "./history.ts";

/** A user of the console. */
export interface ConsoleUser {
  /** Stored with the person's decisions. */
  readonly operator: string;
  /** Default false: may settle, redrive and discard. */
  readonly readOnly?: boolean;
}

interface CommonOptions<Tx> {
  readonly latchkey: Pick<Latchkey<Tx>, "runtime" | "settle" | "overview">;
  /** Refuses settling, redriving and discarding here. Default false. */
  readonly readOnly?: boolean;
  /**
   * What is shown of stored inputs, results, answers, payloads and of the fields of summaries. True: their structure with
   * every value masked. False: everything. A function: its return value. Default: the latchkey's `redact`, otherwise true.
   */
  readonly redact?: boolean | Redact;
  /** The path that the console is mounted under, as browsers see it, such as `/console`. Default: none. */
  readonly basePath?: string;
  /** The name of the installation, shown next to the product's name, such as `production`. Default: none. */
  readonly title?: string;
  /** Publishes a dead message again. Default: messages cannot be redriven. */
  readonly republish?: Republish;
  /** The worker of this process; the overview shows its services. Default: none are shown. */
  readonly worker?: Pick<Worker, "health">;
  /** The return value of `createHistory`, for the overview's charts. Default: no charts. */
  readonly history?: History;
  /**
   * Origins from which browsers may act, such as `https://admin.example.com`, if a proxy does not pass on the browser's
   * `Host`. Default: the origin of the request's own URL.
   */
  readonly origins?: readonly string[];
}

/** One secret for everyone: people sign in with it and with their name. */
export interface TokenAccess {
  /** At least 16 characters. */
  readonly token: string;
  readonly authorize?: never;
}

/** The host's own authentication. */
export interface HostAccess {
  /** Identifies the user; null: the request may not see the console. */
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

/** @throws {TypeError} for an unknown or invalid option. */
export function checkConsoleOptions<Tx>(options: ConsoleOptions<Tx>): void {
  const unknown = Object.keys(options).find((name) => !names.includes(name));
  if (unknown !== undefined) throw new TypeError(`consoleHandler: unknown option ${JSON.stringify(unknown)}`);
  const { latchkey, token, authorize, basePath = "", origins = [] } = options;
  if (typeof latchkey?.settle !== "function" || latchkey.runtime === undefined) {
    throw new TypeError("consoleHandler: latchkey must be what createLatchkey returned");
  }
  if ((token === undefined) === (authorize === undefined)) {
    throw new TypeError("consoleHandler: pass either token or authorize");
  }
  if (token !== undefined && (typeof token !== "string" || token.length < tokenLengthMin)) {
    throw new TypeError(`consoleHandler: token must have at least ${tokenLengthMin} characters`);
  }
  if (basePath !== "" && !/^(?:\/[\w.~-]+)+$/u.test(basePath)) {
    throw new TypeError(
      "consoleHandler: basePath must start with / and must not end with /, such as /console",
    );
  }
  for (const origin of origins) {
    if (!URL.canParse(origin) || new URL(origin).origin !== origin) {
      throw new TypeError(
        `consoleHandler: ${JSON.stringify(origin)} is not an origin, such as https://admin.example.com`,
      );
    }
  }
}
