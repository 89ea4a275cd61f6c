/** Decides what a send of a call proves, and writes the end of the call. */
import type { AnyEffect, Sent } from "../../effects/run-effect.ts";
import { LatchkeyError } from "../../errors.ts";
import type { CallEnd, CallIntent, CallStep } from "../../stores/journal.ts";
import { workerPauseMs } from "../../time/retry-pause.ts";
import { settleOwnCall } from "../lease/late-settlement.ts";
import {
  lose,
  type OwnedRun,
  reconcileAfter,
  reportStep,
  retryWhileHeld,
  stepResult,
  storedJson,
} from "./attempt-context.ts";
import { restoreRefusal, storeRefusal } from "./refusal.ts";

export interface Call<Tx> {
  readonly run: OwnedRun<Tx>;
  readonly effect: AnyEffect;
  readonly intent: CallIntent;
  /** The stored input as JSON: each send gets its own value. */
  readonly plainInput: Uint8Array;
}

/** The state of one call's sends. */
export interface Progress {
  /** A send may have happened, and its outcome is not written. */
  inDoubt: boolean;
  sends: number;
  /** No further send may follow: an end whose reply was lost may still reach the store, and would then be applied to that send. */
  last: boolean;
}

export type Next =
  | { readonly kind: "done"; readonly value: unknown }
  | { readonly kind: "again"; readonly error: unknown };

/** Returns or throws the result of an ended call, at once or in a resumed attempt. */
export async function ended<Tx>(
  run: OwnedRun<Tx>,
  { name, state, result }: Pick<CallStep, "name" | "state" | "result">,
  cause?: unknown,
): Promise<unknown> {
  if (result === null) throw new TypeError(`A ${state} call must have a result`);
  const value = await stepResult(run, name, result);
  if (state === "finished") return value;
  throw run.steps.noteRefusal(restoreRefusal(value, cause));
}

export async function conclude<Tx>(call: Call<Tx>, progress: Progress, sent: Sent): Promise<Next> {
  const { run, effect, intent } = call;
  switch (sent.kind) {
    case "returned":
      return { kind: "done", value: await finish(call, progress, sent.value) };
    case "refused": {
      const result = await storedJson(
        run.runtime,
        run.held.record(),
        `step-result:${intent.name}`,
        "A refusal",
        storeRefusal(sent.refusal),
      );
      await confirmed(call, progress, { event: "refuse", result });
      const cause = sent.refusal.cause ?? sent.refusal;
      return {
        kind: "done",
        value: await ended(run, { name: intent.name, state: "refused", result }, cause),
      };
    }
    case "not_executed":
      // It proves nothing about an earlier send.
      if (!progress.inDoubt) await endUnsent(call, progress);
      return { kind: "again", error: sent.error };
    case "in_doubt":
      progress.inDoubt = true;
      if (run.held.lost.aborted) return lose(run, sent.error);
      if (effect.settings.deduplication === "provider") return { kind: "again", error: sent.error };
      return doubt(run, intent.name, effect, "call-in-doubt", sent.error);
    default:
      return sent satisfies never;
  }
}

async function endUnsent<Tx>(call: Call<Tx>, progress: Progress): Promise<void> {
  const written = await tryEnd(call, { event: "not_executed" });
  if (written.ended === false) return lose(call.run);
  progress.last = written.ended === null || written.tries > 1;
}

async function finish<Tx>(call: Call<Tx>, progress: Progress, value: unknown): Promise<unknown> {
  const { run, intent } = call;
  const { runtime, held, steps } = run;
  let result: Uint8Array;
  try {
    result = await storedJson(
      runtime,
      held.record(),
      `step-result:${intent.name}`,
      `The result of call ${intent.name}`,
      value,
    );
  } catch (cause) {
    // It has happened, and its result is lost.
    const error = new LatchkeyError("outcome-in-doubt", { cause });
    return steps.halt({ kind: "doubt", error, errorCode: "result-not-stored", reconcileAfterMs: null });
  }
  await confirmed(call, progress, { event: "finish", result });
  return ended(run, { name: intent.name, state: "finished", result });
}

/** Ends a call that has happened. If the end cannot be written, the result is settled later. */
async function confirmed<Tx>(
  call: Call<Tx>,
  progress: Progress,
  callEnd: Extract<CallEnd, { readonly result: Uint8Array }>,
): Promise<void> {
  const { run } = call;
  const written = await end(call, callEnd);
  if (written === true) {
    progress.inDoubt = false;
    return;
  }
  if (callEnd.event === "finish") void settleKnown(call, callEnd.result);
  if (written === false) return lose(run);
  return unconfirmed(call);
}

/**
 * The outcome of a write about this call is not known. The journal may show that nothing is in doubt, so an attempt reads it
 * soon, even if the call itself has no look-up.
 */
export function unconfirmed<Tx>({ run, effect, intent }: Call<Tx>, cause?: unknown): never {
  const soonMs = workerPauseMs(run.held.record().fence.attempt);
  return doubt(run, intent.name, effect, "call-in-doubt", cause, soonMs);
}

/** Null: it could not be confirmed. */
export async function end<Tx>(
  call: Pick<Call<Tx>, "run" | "intent">,
  callEnd: CallEnd,
  limitMs?: number,
): Promise<boolean | null> {
  return (await tryEnd(call, callEnd, limitMs)).ended;
}

async function tryEnd<Tx>(
  { run, intent }: Pick<Call<Tx>, "run" | "intent">,
  callEnd: CallEnd,
  limitMs?: number,
): Promise<{ readonly ended: boolean | null; readonly tries: number }> {
  const { runtime, held, steps } = run;
  const { name, generation } = intent;
  let tries = 0;
  const ask = () => {
    tries += 1;
    return runtime.store.journal.endCall(held.owner(), { name, generation }, callEnd);
  };
  const ended = await retryWhileHeld(runtime, held, ask, limitMs);
  if (ended.kind === "gave_up") return { ended: null, tries };
  if (ended.value) steps.noteOpenCall(null);
  if (ended.value && callEnd.event !== "not_executed") reportStep(run, name, "call");
  return { ended: ended.value, tries };
}

export function doubt<Tx>(
  run: OwnedRun<Tx>,
  step: string,
  effect: AnyEffect,
  because: string,
  cause?: unknown,
  reconcileAfterMs = reconcileAfter(run.runtime, run.operation, run.held.record(), effect.name),
): never {
  const { runtime, operation, held, steps } = run;
  const record = held.record();
  const about = { ...runtime.about(operation.name, record), recordId: record.id };
  // Report only the doubt that stopped the attempt first.
  if (steps.halted === null) {
    runtime.emit({ ...about, type: "call_in_doubt", step, effect: effect.name, because });
  }
  const error = new LatchkeyError("outcome-in-doubt", { cause });
  return steps.halt({ kind: "doubt", error, errorCode: because, reconcileAfterMs });
}

/** An abandoned send has returned: if no other attempt has begun, its value is this call's result. */
export async function settleLate<Tx>(call: Call<Tx>, value: unknown): Promise<void> {
  const { run, intent } = call;
  try {
    await settleKnown(
      call,
      await storedJson(
        run.runtime,
        run.held.record(),
        `step-result:${intent.name}`,
        `The result of call ${intent.name}`,
        value,
      ),
    );
  } catch {
    // It cannot be stored: the call stays in doubt.
  }
}

async function settleKnown<Tx>({ run, intent }: Call<Tx>, result: Uint8Array): Promise<void> {
  await run.over;
  const { name, generation } = intent;
  await settleOwnCall(run.runtime, run.held.record(), { name, generation, result });
}
