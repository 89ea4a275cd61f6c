import { edges, type RecordEvent } from "./edges.ts";
import type { RecordState } from "./record.ts";

/** A move that is not in the edge table: always a defect in Latchkey, never a user's mistake. */
export class IllegalTransition extends Error {
  override readonly name = "IllegalTransition";
  readonly from: RecordState | "none";
  readonly event: string;

  constructor(from: RecordState | "none", event: string) {
    super(`A record in state ${from} has no edge "${event}"`);
    this.from = from;
    this.event = event;
  }
}

/**
 * The state that `event` leads to from `from`.
 *
 * @throws {IllegalTransition} when the edge table has no such edge.
 */
export function transition(from: RecordState | "none", event: RecordEvent): RecordState | "none" {
  const edge = edges.find((candidate) => candidate.from === from && candidate.event === event);
  if (edge === undefined) throw new IllegalTransition(from, event);
  return edge.to;
}
