/** Answers of requests that are done later, and of their status resource. */
import assert from "node:assert/strict";
import { assertRetryAfter } from "./case.ts";
import type { HttpAnswer } from "./client.ts";

/** Asserts that an answer is a 202 in this state, with everything that it must have; gives the id. */
export function assertAccepted(answer: HttpAnswer, state: "pending" | "running"): string {
  assert.equal(answer.status, 202);
  assertRetryAfter(answer);
  assert.equal(answer.header("content-type"), "application/json");
  assert.equal(answer.header("cache-control"), "no-store", "the next one says something else");
  assert.equal(answer.header("idempotent-replayed"), null, "it is no replay: it is not the answer");
  const { operation_ref: id, ...others } = answer.json();
  assert.deepEqual(others, { status: state });
  assert.ok(typeof id === "string" && id !== "");
  const location = answer.header("location") ?? "";
  assert.ok(location.endsWith(`/${id}`), `"${location}" is the address of its status`);
  return id;
}

/** Asserts that two replays are the same: status, body, these headers line by line, and the marker on both. */
export function assertSameReplay(one: HttpAnswer, other: HttpAnswer, names: readonly string[] = []): void {
  const compared = new Set(["content-type", ...names]);
  const seen = (answer: HttpAnswer) => ({
    status: answer.status,
    body: answer.body.toString("latin1"),
    marker: answer.header("idempotent-replayed"),
    lines: answer.lines.filter(([name]) => compared.has(name)),
  });
  assert.equal(other.header("idempotent-replayed"), "true", "a replay is marked");
  assert.deepEqual(seen(other), seen(one));
}
