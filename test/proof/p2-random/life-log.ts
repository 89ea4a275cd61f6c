/** What has been seen of one life of a key, from the writes on its record alone. */

import type { Fence, LatchkeyRecord, RecordKey } from "../../../packages/latchkey/src/engine/record.ts";
import { type Answer, decodeAnswer } from "../../../packages/latchkey/src/operations/answer.ts";
import type { Step } from "../../../packages/latchkey/src/stores/journal.ts";
import type { OperationPlan } from "./config.ts";

export interface LifeLog {
  readonly id: string;
  readonly plan: OperationPlan;
  /** As it was last written. */
  record: LatchkeyRecord;
  /** Attempt and token of every fence that it has had. */
  readonly fences: Set<string>;
  /** Those under which its lease has ended once: an owner that repeats a refence begins another one under the same. */
  readonly lapsed: Set<string>;
  steps: readonly Step[];
  /** Which attempt each finished step was written by. */
  readonly finishedBy: Map<string, Fence>;
  recoveryPoint: string | null;
  /** Store time at which a worker may resume it; null unless it waits for one. */
  resumeAt: number | null;
  /** Who admitted or claimed the last attempt. */
  owner: object | null;
  /** What everybody gets, once it is finished. */
  answer: string | null;
  /** Null until it is finished. */
  finished: { readonly expiresAt: number; readonly forgetAt: number } | null;
  /** How the key came to be without it. */
  over: "released" | "forgotten" | "replaced" | null;
  /** Numbers of the business rows that are committed for it. */
  readonly nonces: Set<number>;
}

export function keyTextOf({ tenant, scope, key }: RecordKey): string {
  return `${tenant}/${scope}/${key}`;
}

export function fenceText({ attempt, token }: Fence): string {
  return `${attempt} ${token}`;
}

/** An answer, as a caller sees it. */
export function answerText({ status, headers, body, omitted }: Answer): string {
  return `${status} ${JSON.stringify(headers)} ${Buffer.from(body).toString("latin1")} ${omitted ?? ""}`;
}

export function storedAnswerText(stored: Uint8Array): string {
  return answerText(decodeAnswer(stored));
}

/** The number that the handler put into its answer; null: none did. */
export function nonceOf(answer: string): number | null {
  const found = /nonce (\d+)/.exec(answer);
  return found === null ? null : Number(found[1]);
}

export function isFinishedStep(step: Step): boolean {
  return step.kind === "phase" || step.state === "finished" || step.state === "refused";
}

export function isSameStep(left: Step, right: Step): boolean {
  const same = left.kind === right.kind && left.position === right.position && left.version === right.version;
  if (!same || left.result === null || right.result === null) return same && left.result === right.result;
  return Buffer.compare(left.result, right.result) === 0;
}
