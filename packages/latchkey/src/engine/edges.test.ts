import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Actor, type Edge, edges, type RecordEvent } from "./edges.ts";
import type { RecordState } from "./record.ts";
import { transition } from "./transition.ts";

type Place = RecordState | "none";

const table: readonly Edge[] = edges;
const from = (place: Place) => table.filter((edge) => edge.from === place);
const targets = (place: Place) => [...new Set(from(place).map((edge) => edge.to))].sort();
const actors = (place: Place) => [...new Set(from(place).flatMap((edge) => edge.by))].sort();

/** Every place that some path from `start` comes to, over the edges that `passes`. */
function reachable(start: Place, passes: (edge: Edge) => boolean = () => true): ReadonlySet<Place> {
  const reached = new Set<Place>([start]);
  for (const place of reached) {
    for (const edge of from(place)) if (passes(edge)) reached.add(edge.to);
  }
  return reached;
}

const states: readonly RecordState[] = [
  "pending",
  "in_progress",
  "completed",
  "failed",
  "retryable",
  "unknown",
  "expired",
];

describe("the edge table", () => {
  test("has one edge for a place and an event", () => {
    const names = table.map((edge) => `${edge.from} ${edge.event}`);
    expect(new Set(names).size).toBe(names.length);
  });

  test("names somebody who moves, for every edge", () => {
    for (const edge of table) expect(edge.by, edge.event).not.toEqual([]);
  });

  test("leads to every state", () => {
    expect([...reachable("none")].sort()).toEqual(["none", ...states].sort());
  });

  test.each(states)("lets a record that is %s come to an end", (state) => {
    expect(reachable(state)).toContain("none");
  });

  test.each<readonly [RecordState, readonly Place[]]>([
    ["completed", ["expired"]],
    ["failed", ["expired"]],
    ["expired", ["none"]],
  ])("absorbs %s, but for the record-cleaner", (state, to) => {
    expect(targets(state)).toEqual(to);
    expect(actors(state)).toEqual(["record-cleaner"]);
  });

  test("lets nobody out of unknown who has no proof (I6)", () => {
    expect(actors("unknown")).toEqual<Actor[]>(["operator", "outcome-reconciler", "owner"]);
    const ofOwner = from("unknown").filter((edge) => edge.by.includes("owner"));
    expect(ofOwner.map((edge) => edge.event)).toEqual(["settle_completed", "settle_call"]);
    expect(reachable("unknown", (edge) => !edge.event.startsWith("settle_"))).toEqual(new Set(["unknown"]));
  });

  test("lets the cleaner touch only what is over or was never begun (I12)", () => {
    const cleaned = table.filter((edge) => edge.by.includes("record-cleaner")).map((edge) => edge.from);
    expect([...new Set(cleaned)].sort()).toEqual(["completed", "expired", "failed", "pending"]);
  });

  test("runs a life only by admission: nothing else leads to in_progress", () => {
    const events = table.filter((edge) => edge.to === "in_progress" && edge.event !== "advance");
    expect([...new Set(events.map((edge) => edge.event))].sort()).toEqual(["admit", "claim", "take_over"]);
  });

  test("advances only what is running, and lets nobody but its owner do so", () => {
    const advances = table.filter((edge) => edge.event === "advance");
    expect(advances).toMatchObject([{ from: "in_progress", to: "in_progress", by: ["owner"] }]);
  });
});

describe("any history", () => {
  test("completes at most once in a life, and forgets only what was over or proven not to have happened", () => {
    const names = [...new Set<RecordEvent>(edges.map(({ event }) => event))];
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...names), { maxLength: 60 }), (history) => {
        let place: Place = "none";
        let completions = 0;
        for (const event of history) {
          if (from(place).every((edge) => edge.event !== event)) continue;
          const next: Place = transition(place, event);
          if (next === "completed") completions += 1;
          if (next === "none") {
            expect(["forget", "release"]).toContain(event);
            completions = 0;
          }
          expect(completions).toBeLessThanOrEqual(1);
          place = next;
        }
      }),
      { numRuns: 2_000 },
    );
  });
});
