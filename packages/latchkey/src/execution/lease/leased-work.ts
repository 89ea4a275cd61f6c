/** The work under a lease: a route's handler, or work that its operation owns. */
import type { CodecContext } from "../../codec.ts";
import type { Answer } from "../../operations/answer.ts";
import type { AttemptEnd } from "../../stores/store.ts";
import type { TraceSpan } from "../../telemetry/tracing.ts";
import type { Limited } from "../../time/time-limit.ts";
import type { AttemptHandle } from "../handle.ts";
import type { Ended } from "./end-attempt.ts";
import type { HeldLease } from "./held-lease.ts";

export interface LeasedWork {
  /** Whether the operation owns its work: every life of it then has a stored input. */
  readonly ownsWork: boolean;
  /** The input that a new life stores for its resumption, encoded by the codec; null: none. */
  input(context: CodecContext): Promise<Uint8Array | null>;
  /** Begins one attempt. */
  begin(held: HeldLease, handle: AttemptHandle, span: TraceSpan | undefined): LeasedRun;
}

export interface LeasedRun {
  work(): Promise<Answer>;
  /** Decides the end of the attempt. */
  conclude(ran: Limited<Answer>): Promise<Conclusion>;
  /** Called when the end has been written, or given up. */
  over(): void;
}

/** `in_doubt`: it is not known what has happened, and the caller's result is an unknown outcome. */
export type Concluded = Limited<Answer> | { readonly kind: "in_doubt" };

export interface Conclusion {
  readonly ran: Concluded;
  readonly end: AttemptEnd;
  /** Null: the end still has to be written. */
  readonly ended: Ended | null;
}
