import { describe, expect, test } from "vitest";
import { defineEffect } from "../effects/define-effect.ts";
import type { EffectOptions } from "../effects/effect.ts";
import type { Sent } from "../effects/run-effect.ts";
import { NotExecuted } from "../errors.ts";
import { afterLookUp, afterSend, type DeliveryState, nextDelivery, unsentTries } from "./next-delivery.ts";

const execute = async () => 1;
const lookup = async () => null;
const close = async () => ({ closed: true }) as const;
const delivery = { attemptsMax: 5 };
const limits = { timeoutMs: 100 };

const kinds = {
  provider: { deduplication: "provider", dedupeWindowMs: 10_000 },
  lookup: { deduplication: "lookup", lookup },
  close: { deduplication: "lookup", lookup, close },
  reopen: { deduplication: "lookup", lookup, close, reopen: true },
  none: { deduplication: "none" },
} as const satisfies Record<string, Partial<EffectOptions<unknown, number>>>;
type Kind = keyof typeof kinds;

const settingsOf = (kind: Kind) => defineEffect("e", { execute, delivery, limits, ...kinds[kind] }).settings;

const row: DeliveryState = {
  fence: { attempt: 1, token: "t" },
  sends: 0,
  returns: 0,
  doubtfulSince: null,
  result: null,
};
const all = Object.keys(kinds) as Kind[];
const kept = { ...row, result: new Uint8Array(1) };

describe("before", () => {
  const doubtful = { ...row, sends: 1, doubtfulSince: 1_000 };
  const dies = (errorCode: string) => ({ kind: "die", errorCode });
  test.each<[string, DeliveryState, readonly Kind[], number, unknown]>([
    ["fresh", row, all, 0, { kind: "send" }],
    ["all earlier sends returned", { ...row, sends: 4, returns: 4 }, all, 0, { kind: "send" }],
    ["sends spent", { ...row, sends: 5, returns: 5 }, all, 0, dies("attempts-spent")],
    ["a result", { ...kept, sends: 9, returns: 0, doubtfulSince: 1 }, all, 9e9, { kind: "finish" }],
    ["two processes died", { ...row, sends: 4, returns: 2 }, all, 0, { kind: "send" }],
    ["three processes died", { ...row, sends: 4, returns: 1 }, all, 0, dies("kills-its-process")],
    ["three died, in doubt", { ...doubtful, sends: 3 }, all, 1_000, dies("kills-its-process")],
    ["in doubt", doubtful, ["none"], 1_000, dies("call-in-doubt")],
    ["in doubt", doubtful, ["lookup", "close", "reopen"], 9e9, { kind: "look_up" }],
    [
      "in doubt, sends spent",
      { ...doubtful, sends: 5, returns: 5 },
      ["lookup", "close"],
      0,
      { kind: "look_up" },
    ],
    ["in doubt, the send ends in the window", doubtful, ["provider"], 10_899, { kind: "send" }],
    ["in doubt, the send may outlast the window", doubtful, ["provider"], 10_900, dies("dedupe-window-over")],
    ["in doubt, spent", { ...doubtful, sends: 5, returns: 5 }, ["provider"], 1_000, dies("attempts-spent")],
  ])("%s %j %j at %i", (_, state, of, now, next) => {
    for (const kind of of) expect(nextDelivery(state, settingsOf(kind), now)).toEqual(next);
  });
});

describe("after a send", () => {
  const returned: Sent = { kind: "returned", value: 7 };
  const notExecuted: Sent = { kind: "not_executed", error: new NotExecuted() };
  const inDoubt: Sent = { kind: "in_doubt", error: new Error() };
  const last = { ...row, sends: 4 };
  const before = { ...row, sends: 1, doubtfulSince: 5 };
  const retries = (errorCode: string, doubtful: boolean) => ({ kind: "retry", errorCode, doubtful });
  const dies = (errorCode: string) => ({ kind: "die", errorCode });
  test.each<[string, DeliveryState, readonly Kind[], Sent, unknown]>([
    ["returned", last, all, returned, { kind: "happened", value: 7 }],
    ["refused", row, all, { kind: "refused", refusal: {} as never }, dies("effect-refused")],
    ["provably did not happen", row, all, notExecuted, retries("not-executed", false)],
    ["the last one, proven", last, all, notExecuted, dies("attempts-spent")],
    ["proven, and an earlier one in doubt", before, ["provider"], notExecuted, retries("not-executed", true)],
    ["in doubt", row, ["provider", "lookup", "close", "reopen"], inDoubt, retries("call-in-doubt", true)],
    ["in doubt", row, ["none"], inDoubt, dies("call-in-doubt")],
    ["the last one, in doubt", last, ["provider"], inDoubt, dies("attempts-spent")],
    [
      "the last one, in doubt: it is looked up",
      last,
      ["lookup", "close"],
      inDoubt,
      retries("call-in-doubt", true),
    ],
  ])("%s %j %j", (_, state, of, sent, verdict) => {
    for (const kind of of) expect(afterSend(state, settingsOf(kind), sent)).toEqual(verdict);
  });
});

describe("after a look-up", () => {
  const asked = { ...row, sends: 1, doubtfulSince: 5, fence: { attempt: 2, token: "t" } };
  const spent = { ...asked, fence: { attempt: 6, token: "t" } };
  const later = { kind: "retry", errorCode: "call-in-doubt", doubtful: true };
  const dies = (errorCode: string) => ({ kind: "die", errorCode });
  test.each<[string, DeliveryState, Kind, Parameters<typeof afterLookUp>[2], unknown]>([
    ["found", spent, "lookup", { kind: "happened", value: 7 }, { kind: "happened", value: 7 }],
    ["not found", asked, "lookup", { kind: "not_found" }, later],
    ["no answer", asked, "close", { kind: "failed" }, later],
    ["not found, tries spent", spent, "lookup", { kind: "not_found" }, dies("call-in-doubt")],
    ["no answer, tries spent", spent, "close", { kind: "failed" }, dies("call-in-doubt")],
    ["closed", asked, "close", { kind: "closed" }, dies("closed-downstream")],
    ["closed", asked, "reopen", { kind: "closed" }, { kind: "reopen" }],
  ])("%s %j %s", (_, state, kind, looked, verdict) => {
    expect(afterLookUp(state, settingsOf(kind), looked)).toEqual(verdict);
  });
});

test("tries without a send are counted by claims, and there is at least one", () => {
  expect(unsentTries({ fence: { attempt: 1, token: "" }, sends: 1 })).toBe(1);
  expect(unsentTries({ fence: { attempt: 7, token: "" }, sends: 3 })).toBe(4);
});
