import { parseArgs } from "node:util";
import { positive } from "./machine.ts";

export interface BenchOptions {
  /** The approximate duration of the whole run. */
  readonly minutes: number;
  readonly rounds: number;
  readonly concurrencies: readonly number[];
  /** Run only subjects whose name contains one of these, and their baselines. Empty: all. */
  readonly only: readonly string[];
  /** Whether the load generator polls instead of sleeping. */
  readonly awake: boolean;
  /** Another checkout that contains this bench: Latchkey is also measured from there, on its own tables. */
  readonly against: string | null;
  /** A round trip from the servers to their database and back, in milliseconds; 0: they are on one machine. */
  readonly rttMs: number;
  /** Folder for the CPU profiles of the servers. */
  readonly profile: string | null;
  /** Folder for `performance.md` and `performance.json`; null: the numbers are only written to stdout. */
  readonly out: string | null;
}

export const usage = `npm run bench -- [--minutes 15] [--rounds 3] [--concurrency 1,8,32] [--only express/order,hono]
    [--rtt 0.5] [--against <checkout>] [--profile <folder>] [--awake] [--out docs]

--against also measures Latchkey from another checkout, in turn with this one, on tables that its own migrations make.
--rtt adds a round trip of that many milliseconds between the servers and Postgres, by a relay that uses a core of its own.
--awake makes the load generator poll instead of sleep, so that no server pays for waking it; that also uses a core.
With --only, --against, --rtt or --awake, results are written only to the folder of --out; otherwise, to docs/.`;

/** @throws {TypeError} if an option is unknown or out of range */
export function parseOptions(args: readonly string[]): BenchOptions {
  const text = { type: "string" } as const;
  const { values } = parseArgs({
    args: [...args],
    options: {
      minutes: text,
      rounds: text,
      concurrency: text,
      only: text,
      against: text,
      profile: text,
      rtt: text,
      awake: { type: "boolean" },
      out: text,
    },
  });
  const list = (value: string | undefined) => value?.split(",").filter(Boolean) ?? [];
  const only = list(values.only);
  const partial =
    only.length > 0 || values.against !== undefined || values.awake === true || values.rtt !== undefined;
  return {
    minutes: positive("minutes", values.minutes ?? "15"),
    rounds: Math.ceil(positive("rounds", values.rounds ?? "3")),
    concurrencies: list(values.concurrency ?? "1,8,32").map((value) => positive("concurrency", value)),
    only,
    against: values.against ?? null,
    awake: values.awake ?? false,
    rttMs: values.rtt === undefined ? 0 : positive("rtt", values.rtt),
    profile: values.profile ?? null,
    out: values.out ?? (partial ? null : "docs"),
  };
}
