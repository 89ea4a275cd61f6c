/** The result of a run. Its JSON form is stable: members are added, not renamed. */
import type { Fault } from "../faults.ts";

export type Verdict = "passed" | "faulty" | "inconclusive" | "skipped";

export interface Report {
  readonly tool: "latchkey-probe";
  readonly version: string;
  readonly profile: string;
  /** RFC 3339. */
  readonly startedAt: string;
  readonly durationMs: number;
  readonly requests: number;
  readonly targets: readonly TargetReport[];
  /** Routes of the operator's document that were not probed, each with the reason. */
  readonly leftOut: readonly { readonly name: string; readonly reason: string }[];
  readonly summary: Readonly<Record<Verdict, number>> & {
    readonly faults: number;
    readonly unjudgedTargets: number;
  };
}

export interface TargetReport {
  readonly name: string;
  readonly url: string;
  /** Why nothing was judged: the server could not be reached, or refuses the plain request. Null: it was judged. */
  readonly unjudged: string | null;
  /** The parts by which two executions are distinguished. */
  readonly toldApartBy: readonly string[];
  readonly checks: readonly CheckReport[];
  /** The requests before the checks, if nothing was judged. */
  readonly exchanges: readonly Exchange[];
}

export interface CheckReport {
  readonly name: string;
  readonly about: string;
  readonly verdict: Verdict;
  /** Why the check is inconclusive or was skipped. */
  readonly reason: string | null;
  readonly faults: readonly Fault[];
  /** Faults that the operator ignores. */
  readonly ignored: readonly Fault[];
  readonly notes: readonly string[];
  readonly requests: number;
  readonly exchanges: readonly Exchange[];
}

/** One request and its answer, shortened. Header values from the operator are not included. */
export interface Exchange {
  readonly method: string;
  readonly url: string;
  readonly caller: 1 | 2;
  /** The values of the key's header, one per field line. */
  readonly key: readonly string[];
  readonly sent: string;
  /** Where the connection was cut, if it was. */
  readonly cut: string | null;
  readonly status: number | null;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: string;
  /** Why there is no answer. */
  readonly problem: string | null;
}
