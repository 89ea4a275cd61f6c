import { expect, test } from "vitest";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import { defineEffect } from "../effects/define-effect.ts";
import { rateOf } from "./rate.ts";

function setUp(perSecond: number | undefined) {
  const { clock } = manualPorts();
  const limits = perSecond === undefined ? {} : { perSecond };
  const effect = defineEffect("charge", { deduplication: "none", execute: async () => null, limits });
  return { clock, rate: rateOf(effect, clock), again: rateOf(effect, clock) };
}

function limited(perSecond: number) {
  const { clock, rate } = setUp(perSecond);
  if (rate === null) throw new Error("The effect has a rate");
  return { clock, rate };
}

test("an effect has one rate in a process, or none", () => {
  expect(setUp(undefined).rate).toBeNull();
  const { rate, again } = setUp(5);
  expect([rate, again]).toEqual([expect.anything(), rate]);
  expect(again).toBe(rate);
});

test("permits are taken until they are given back, however long that takes", async () => {
  const { clock, rate } = limited(5);
  rate.take(5);
  await clock.advance(2_000);
  expect([rate.capacity(), rate.untilCapacityMs()]).toEqual([0, 0]);
  rate.giveBack(2);
  expect(rate.capacity()).toBe(2);
  rate.giveBack(0);
  rate.giveBack(3);
  expect(rate.capacity()).toBe(5);
});

test("a delivery that begins keeps its permit for a second from then", async () => {
  const { clock, rate } = limited(3);
  rate.take(3);
  await clock.advance(600);
  rate.begin();
  await clock.advance(100);
  rate.begin();
  rate.giveBack(1);
  expect([rate.capacity(), rate.untilCapacityMs()]).toEqual([1, 0]);
  rate.take(1);
  expect([rate.capacity(), rate.untilCapacityMs()]).toEqual([0, 900]);
  await clock.advance(899);
  expect(rate.capacity()).toBe(0);
  await clock.advance(1);
  expect([rate.capacity(), rate.untilCapacityMs()]).toEqual([1, 0]);
  await clock.advance(100);
  expect(rate.capacity()).toBe(2);
});
