/** What the processes do: clients' requests, and one round of each background service. */

import { isLatchkeyError, StoreError } from "../../../packages/latchkey/src/errors.ts";
import { type Answer, decodeAnswer } from "../../../packages/latchkey/src/operations/answer.ts";
import type { Result } from "../../../packages/latchkey/src/operations/attempt.ts";
import { effectDispatcher } from "../../../packages/latchkey/src/workers/effect-dispatcher.ts";
import { leaseRescuer } from "../../../packages/latchkey/src/workers/lease-rescuer.ts";
import { outcomeReconciler } from "../../../packages/latchkey/src/workers/outcome-reconciler.ts";
import { define, type Plan } from "./operations.ts";
import type { Role, System } from "./process.ts";

export type ServiceName = "rescuer" | "reconciler" | "dispatcher";

/** How a client's request ended, as its client sees it. */
export interface RequestEnd {
  readonly kind: string;
  readonly id: string | null;
  /** The answer; null: there is none, or it is not to be relied on. */
  readonly answer: string | null;
}

/** What the world itself throws: nothing of it is a mistake. */
export class WorldError extends Error {
  override readonly name = "WorldError";
}

export function client(plan: Plan, body: number): Role {
  return async (system) => {
    const submit = define(system, plan);
    const end = await submit(body).then(requestEndOf, thrown);
    return JSON.stringify(end);
  };
}

export function service(plan: Plan, name: ServiceName): Role {
  return async (system) => {
    define(system, plan);
    // A round fails when the store does.
    await made(system, name)
      .runOnce()
      .catch((error: unknown) => {
        if (!isLatchkeyError(error)) throw error;
      });
    return "over";
  };
}

function made({ latchkey }: System, name: ServiceName): { runOnce(): Promise<unknown> } {
  switch (name) {
    case "rescuer":
      return leaseRescuer(latchkey);
    case "reconciler":
      return outcomeReconciler(latchkey, { triesMax: 3 });
    case "dispatcher":
      return effectDispatcher(latchkey, { batchSize: 2 });
    default:
      return name satisfies never;
  }
}

function requestEndOf(result: Result): RequestEnd {
  switch (result.kind) {
    case "executed": {
      const { recordId: id, answer, stored } = result;
      return stored
        ? { kind: "executed", id, answer: answerText(answer) }
        : { kind: "executed, not stored", id, answer: null };
    }
    case "replay":
      return { kind: "replay", id: result.recordId, answer: answerText(result.answer) };
    case "key_misuse":
      return { kind: `key misuse: ${result.because}`, id: null, answer: null };
    default:
      return { kind: result.kind, id: "recordId" in result ? result.recordId : null, answer: null };
  }
}

function thrown(error: unknown): RequestEnd {
  const known = error instanceof WorldError || isLatchkeyError(error);
  const code = error instanceof StoreError ? `${error.code}, ${error.certainty}` : nameOf(error);
  return { kind: known ? `threw ${code}` : `broken: ${String(error)}`, id: null, answer: null };
}

function nameOf(error: unknown): string {
  if (isLatchkeyError(error)) return error.code;
  return error instanceof Error ? error.name : String(error);
}

/** An answer, as a caller sees it. */
function answerText({ status, headers, body, omitted }: Answer): string {
  return `${status} ${JSON.stringify(headers)} ${Buffer.from(body).toString("latin1")} ${omitted ?? ""}`;
}

export function storedAnswerText(stored: Uint8Array): string {
  return answerText(decodeAnswer(stored));
}
