/** Which event reports each edge of the state machine, so that an operator's log shows every change of a record. */
import type { edges } from "../engine/edges.ts";
import type { LatchkeyEvent } from "./events.ts";

type EdgeOf<E> = E extends { readonly from: infer F extends string; readonly event: infer N extends string }
  ? `${F} ${N}`
  : never;

/** An edge's name: the state that it leaves, and its event in the edge table. */
export type EdgeName = EdgeOf<(typeof edges)[number]>;

/** `cleaned` reports the counts of a batch; the other events name their record. */
export const edgeEvents = {
  "none commit": "executed",
  "retryable commit": "executed",
  "none admit": "reserved",
  "none accept": "reserved",
  "none lose_transaction": "became_unknown",
  "retryable lose_transaction": "became_unknown",
  "pending claim": "claimed",
  "pending abandon": "cleaned",
  "in_progress complete": "executed",
  "in_progress fail": "executed",
  "in_progress release": "released",
  "in_progress retry_later": "retryable",
  "in_progress doubt": "became_unknown",
  "in_progress give_up": "lease_rescued",
  "in_progress take_over": "taken_over",
  "in_progress advance": "step_finished",
  "retryable take_over": "taken_over",
  "retryable deliver_answer": "effect_delivered",
  "unknown settle_completed": "settled",
  "unknown settle_call": "settled",
  "unknown settle_failed": "settled",
  "unknown settle_not_executed": "settled",
  "completed purge": "cleaned",
  "failed purge": "cleaned",
  "expired forget": "cleaned",
} as const satisfies Readonly<Record<EdgeName, LatchkeyEvent["type"]>>;
