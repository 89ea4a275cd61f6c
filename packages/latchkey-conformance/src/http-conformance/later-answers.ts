/** Assertions about requests that a worker runs, and about their status resource. */
import assert from "node:assert/strict";
import { assertRetryAfter } from "./case.ts";
import type { HttpAnswer } from "./client.ts";

/** Asserts that an answer is a complete 202 in this state, and returns the id. */
export function assertAccepted(answer: HttpAnswer, state: "pending" | "running"): string {
  assert.equal(answer.status, 202);
  assertRetryAfter(answer);
  assert.equal(answer.header("content-type"), "application/json");
  assert.equal(answer.header("cache-control"), "no-store", "the next answer will differ");
  assert.equal(
    answer.header("idempotent-replayed"),
    null,
    "it is not a replay, because it is not the answer",
  );
  const { operation_ref: id, ...others } = answer.json();
  assert.deepEqual(others, { status: state });
  assert.ok(typeof id === "string" && id !== "");
  const location = answer.header("location") ?? "";
  assert.ok(location.endsWith(`/${id}`), `"${location}" must be the address of its status`);
  return id;
}

/** Asserts that two replays are equal: status, body, these headers line by line, and the marker on both. */
export function assertSameReplay(one: HttpAnswer, other: HttpAnswer, names: readonly string[] = []): void {
  const compared = new Set(["content-type", ...names]);
  const seen = (answer: HttpAnswer) => ({
    status: answer.status,
    body: answer.body.toString("latin1"),
    marker: answer.header("idempotent-replayed"),
    lines: answer.lines.filter(([name]) => compared.has(name)),
  });
  assert.equal(other.header("idempotent-replayed"), "true", "a replay must be marked");
  assert.deepEqual(seen(other), seen(one));
}
