/** Histories of one key, made by hand: which of them a sequential key could have given. */
import { expect, test } from "vitest";
import type { Asked, RequestResult } from "./asked.ts";
import { Choices } from "./choices.ts";
import { drawConfig } from "./config.ts";
import type { LifeLog } from "./life-log.ts";
import { notLinearizable } from "./linearizable.ts";

const plan = drawConfig(Choices.given([])).operations[0];
if (plan === undefined) throw new Error("Every schedule has an operation");

/** A life whose answer is there from `from` on, for 100 ms. */
function life(id: string, digest: number, expiresAt: number): LifeLog {
  const record = { principal: "p", fingerprint: { version: 1, digest: new Uint8Array([digest]) } };
  const finished = { expiresAt, forgetAt: expiresAt };
  return { id, plan, record, finished } as unknown as LifeLog;
}

const lives = new Map([
  ["one", life("one", 1, 100)],
  ["two", life("two", 2, 100)],
]);

/** Asked at `begun` and answered at `ended`, both also milliseconds. */
function asked(begun: number, ended: number, reply: RequestResult, digest = 1): Asked {
  const request = { plan, key: { tenant: "ta", key: "k" }, digest, principal: "p" };
  const times = { begun, begunMs: begun, ended, endedMs: ended };
  const key = { tenant: "ta", scope: "op0", key: "k" };
  return { ...request, ...times, record: key, reply, nonces: [] } as unknown as Asked;
}

const executed = (recordId: string) =>
  ({ kind: "executed", recordId, stored: true }) as unknown as RequestResult;
const replay = (recordId: string) => ({ kind: "replay", recordId }) as unknown as RequestResult;
const inProgress = { kind: "in_progress", recordId: "one", retryAfterMs: 1 } as const;
const misuse = { kind: "key_misuse", because: "fingerprint" } as const;

const possible: readonly (readonly [string, readonly Asked[]])[] = [
  ["an execution and its replay", [asked(0, 5, executed("one")), asked(6, 7, replay("one"))]],
  ["a replay that overtakes its execution", [asked(0, 9, executed("one")), asked(1, 3, replay("one"))]],
  ["in progress meanwhile", [asked(0, 9, executed("one")), asked(1, 3, inProgress)]],
  ["misuse of a key that runs", [asked(0, 9, executed("one")), asked(1, 3, misuse, 2)]],
  ["a new life past its time", [asked(0, 5, executed("one")), asked(90, 120, executed("two"), 2)]],
];

const impossible: readonly (readonly [string, readonly Asked[]])[] = [
  ["two executions", [asked(0, 5, executed("one")), asked(3, 9, executed("one"))]],
  ["in progress after its answer", [asked(0, 5, executed("one")), asked(6, 9, inProgress)]],
  ["another life within its time", [asked(0, 5, executed("one")), asked(6, 9, executed("two"), 2)]],
  ["a replay past its time", [asked(0, 5, executed("one")), asked(101, 110, replay("one"))]],
  ["misuse by the one who owns it", [asked(0, 5, executed("one")), asked(6, 9, misuse, 1)]],
  ["misuse of a key that nobody else has", [asked(6, 9, misuse, 1)]],
  ["there and back", [asked(0, 5, replay("one")), asked(6, 7, replay("two"), 2), asked(8, 9, replay("one"))]],
];

test.each(possible)("possible: %s", (_what, history) => {
  expect(notLinearizable(history, lives)).toBeNull();
});

test.each(impossible)("impossible: %s", (_what, history) => {
  expect(notLinearizable(history, lives)).not.toBeNull();
});
