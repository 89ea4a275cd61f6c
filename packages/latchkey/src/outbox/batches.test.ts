import { expect, test } from "vitest";
import { systemPorts } from "../ports.ts";
import { createBatches } from "./batches.ts";

const { clock } = systemPorts;

test("items added at once are written together, and those added meanwhile in the next call", async () => {
  const calls: string[][] = [];
  const batches = createBatches<{ id: string }>(clock, async (items) => {
    calls.push(items.map(({ id }) => id));
    return items.map(({ id }) => id).filter((id) => id !== "b");
  });
  const added = ["a", "b"].map((id) => batches.add({ id }));
  expect(await Promise.all(added)).toEqual([true, false]);
  expect(await batches.add({ id: "c" })).toBe(true);
  expect(calls).toEqual([["a", "b"], ["c"]]);
});

test("a clock that throws fails the items of its call, and no later ones", async () => {
  let failures = 1;
  const startTimer: typeof clock.startTimer = (...timer) => {
    if (failures-- > 0) throw new Error("the clock failed");
    return clock.startTimer(...timer);
  };
  const batches = createBatches<{ id: string }>({ ...clock, startTimer }, async (items) =>
    items.map(({ id }) => id),
  );
  const results = await Promise.allSettled([batches.add({ id: "a" }), batches.add({ id: "b" })]);
  expect(results.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  expect(await batches.add({ id: "c" })).toBe(true);
});
