import { describe, expect, test } from "vitest";
import { edges, type RecordEvent } from "./edges.ts";
import type { RecordState } from "./record.ts";
import { IllegalTransition, transition } from "./transition.ts";

type Place = RecordState | "none";

const places: readonly Place[] = [
  "none",
  "pending",
  "in_progress",
  "completed",
  "failed",
  "retryable",
  "unknown",
  "expired",
];

const events = [...new Set<RecordEvent>(edges.map(({ event }) => event))];

/** Where each event leads from each place; a place that is not there has no such edge. */
const leadsTo: Readonly<Record<RecordEvent, Partial<Record<Place, Place>>>> = {
  commit: { none: "completed", retryable: "completed" },
  admit: { none: "in_progress" },
  accept: { none: "pending" },
  lose_transaction: { none: "unknown", retryable: "unknown" },
  claim: { pending: "in_progress" },
  abandon: { pending: "failed" },
  complete: { in_progress: "completed" },
  fail: { in_progress: "failed" },
  release: { in_progress: "none" },
  retry_later: { in_progress: "retryable" },
  doubt: { in_progress: "unknown" },
  give_up: { in_progress: "unknown" },
  take_over: { in_progress: "in_progress", retryable: "in_progress" },
  advance: { in_progress: "in_progress" },
  deliver_answer: { retryable: "completed" },
  settle_completed: { unknown: "completed" },
  settle_call: { unknown: "retryable" },
  settle_failed: { unknown: "failed" },
  settle_not_executed: { unknown: "retryable" },
  purge: { completed: "expired", failed: "expired" },
  forget: { expired: "none" },
};

const cells = events.flatMap((event) =>
  places.map((from) => ({ from, event, to: leadsTo[event][from] ?? null })),
);

describe("transition", () => {
  test.each(cells.filter(({ to }) => to !== null))(
    "$event leads from $from to $to",
    ({ from, event, to }) => {
      expect(transition(from, event)).toBe(to);
    },
  );

  test.each(cells.filter(({ to }) => to === null))(
    "$event does not lead on from $from",
    ({ from, event }) => {
      const act = () => transition(from, event);
      expect(act).toThrow(IllegalTransition);
      expect(act).toThrow(expect.objectContaining({ name: "IllegalTransition", from, event }));
      expect(act).toThrow(`state ${from} has no edge "${event}"`);
    },
  );
});
