/** What runs under a lease: a route's handler, or work that its operation owns. */
import type { CodecContext } from "../../codec.ts";
import type { Answer } from "../../operations/answer.ts";
import type { AttemptEnd } from "../../stores/store.ts";
import type { TraceSpan } from "../../telemetry/tracing.ts";
import type { Limited } from "../../time/time-limit.ts";
import type { AttemptHandle } from "../handle.ts";
import type { Ended } from "./end-attempt.ts";
import type { HeldLease } from "./held-lease.ts";

export interface LeasedWork {
  /** Whether the operation owns its work: then every life of it has kept an input. */
  readonly ownsWork: boolean;
  /** What a new life keeps to be resumed with, as the codec stores it; null: nothing. */
  input(context: CodecContext): Promise<Uint8Array | null>;
  /** One attempt. */
  begin(held: HeldLease, handle: AttemptHandle, span: TraceSpan | undefined): LeasedRun;
}

export interface LeasedRun {
  work(): Promise<Answer>;
  /** What the attempt has come to. */
  conclude(ran: Limited<Answer>): Promise<Conclusion>;
  /** Its end has been written, or given up. */
  over(): void;
}

/** `in_doubt`: it is not known what has happened, and the caller is answered that the outcome is unknown. */
export type Concluded = Limited<Answer> | { readonly kind: "in_doubt" };

export interface Conclusion {
  readonly ran: Concluded;
  readonly end: AttemptEnd;
  /** Null: the end is still to be written. */
  readonly ended: Ended | null;
}
