/** The settings of one run of the probe. */
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
  /** The syntax of keys in all checks except those of the syntax; `auto`: whatever the server accepts. */
  readonly keySyntax: "auto" | "bare" | "quoted";
  /** Sent with every request of the first caller. */
  readonly credentials: readonly HeaderLine[];
  /** Credentials of another tenant. Null: tenants are not checked. */
  readonly otherCredentials: readonly HeaderLine[] | null;
  /** The URL that returns the number of effects. Null: executions are distinguished by their answers only. */
  readonly count: EffectCount | null;
  readonly checks: readonly string[];
  readonly ignored: ReadonlySet<FaultCode>;
  readonly concurrency: number;
  readonly requestsPerSecond: number;
  readonly requestsMax: number;
  readonly timeoutMs: number;
  /** How long a key may stay blocked before it counts as a fault. */
  readonly patienceMs: number;
  readonly timing: Timing;
}

export interface EffectCount {
  readonly url: URL;
  /** A JSON pointer to the number or the array. Default: the whole answer. */
  readonly pointer: string;
}

/** Larger answers are not read. */
export const answerLimitBytes = 16 * 1024 * 1024;
