/** What one run of the probe is told. */
import type { FaultCode } from "./faults.ts";
import type { Timing } from "./ports.ts";
import type { Profile } from "./profiles.ts";
import type { HeaderLine, Target } from "./target.ts";

export interface ProbeSettings {
  readonly targets: readonly Target[];
  /** Routes of the operator's document that are not probed, each with the reason. */
  readonly leftOut: readonly { readonly name: string; readonly reason: string }[];
  readonly profile: Profile;
  readonly keyHeader: string;
  /** How keys are written in all checks but those of the syntax; `auto`: as the server takes them. */
  readonly keySyntax: "auto" | "bare" | "quoted";
  /** Sent with every request of the first caller. */
  readonly credentials: readonly HeaderLine[];
  /** Those of another tenant. Null: tenants are not checked. */
  readonly otherCredentials: readonly HeaderLine[] | null;
  /** Answers how many effects there are. Null: executions are told apart by their answers alone. */
  readonly count: EffectCount | null;
  readonly checks: readonly string[];
  readonly ignored: ReadonlySet<FaultCode>;
  readonly concurrency: number;
  readonly requestsPerSecond: number;
  readonly requestsMax: number;
  readonly timeoutMs: number;
  /** How long a key may stay blocked before that is a fault. */
  readonly patienceMs: number;
  readonly timing: Timing;
}

export interface EffectCount {
  readonly url: URL;
  /** A JSON pointer to the number or the array. Default: the whole answer. */
  readonly pointer: string;
}

/** An answer larger than this is not read. */
export const answerLimitBytes = 16 * 1024 * 1024;
