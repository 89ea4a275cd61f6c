/** The sends of one call. */
import { windowIsOver } from "../../effects/dedupe-window.ts";
import { type Sent, sendEffect, takePermit } from "../../effects/run-effect.ts";
import { pause } from "../../ports.ts";
import type { CallStep } from "../../stores/journal.ts";
import { retryPauseMs } from "../../time/retry-pause.ts";
import { noteSent } from "../attempt-span.ts";
import { decodeJson } from "../stored-values.ts";
import { lose, retryWhileHeld } from "./attempt-context.ts";
import {
  type Call,
  conclude,
  doubt,
  end,
  ended,
  type Next,
  type Progress,
  settleLate,
  unconfirmed,
} from "./call-ends.ts";

/** The store has already failed for longer than this. Another try helps only if it works again. */
const unsentLimitMs = 2_000;

export async function begin<Tx>(call: Call<Tx>, inDoubt: boolean): Promise<unknown> {
  const { run, effect, intent } = call;
  const progress: Progress = { inDoubt, sends: 0, last: false };
  try {
    return await untilEnded(call, progress);
  } catch (error) {
    // Whatever failed, `run` must not continue past a call that may have happened.
    if (progress.inDoubt && run.steps.halted === null) {
      return doubt(run, intent.name, effect, "call-in-doubt", error);
    }
    throw error;
  }
}

async function untilEnded<Tx>(call: Call<Tx>, progress: Progress): Promise<unknown> {
  const { run, effect } = call;
  const { clock, random } = run.runtime.ports;
  const { attempts, backoffMs, backoffMaxMs } = effect.settings.retry;
  for (;;) {
    const next = await oneSend(call, progress);
    if (next.kind === "done") return next.value;
    if (progress.last || progress.sends >= attempts) {
      if (progress.inDoubt) return doubt(run, call.intent.name, effect, "call-in-doubt", next.error);
      throw next.error;
    }
    const pauses = { firstMs: backoffMs, maxMs: backoffMaxMs };
    await pause(clock, retryPauseMs(progress.sends, random, pauses), run.held.signal);
  }
}

async function oneSend<Tx>(call: Call<Tx>, progress: Progress): Promise<Next> {
  const { run, effect } = call;
  const giveBack = await takePermit(effect, run.held.signal);
  if (giveBack === null) return lose(run);
  try {
    const askedAtMs = run.runtime.ports.clock.monotonicMs();
    const started = await start(call, progress);
    const tookMs = run.runtime.ports.clock.monotonicMs() - askedAtMs;
    if (started.step.state !== "started") {
      progress.inDoubt = false;
      return { kind: "done", value: await ended(run, started.step) };
    }
    // The reply, with the store's time in it, may have been in transit for long.
    if (progress.inDoubt && windowIsOver(started.step.startedAt, effect, started.now + tookMs)) {
      return doubt(run, call.intent.name, effect, "dedupe-window-over");
    }
    // Check again just before the send: the process may have been frozen since.
    if (!run.held.holds()) {
      const unsent = progress.inDoubt || (await end(call, { event: "not_executed" }));
      return unsent === null ? unconfirmed(call) : lose(run);
    }
    const inDoubtBefore = progress.inDoubt;
    progress.sends += 1;
    progress.inDoubt = true;
    const sent = await sendInSpan(call, progress.sends);
    if (sent.kind === "not_executed") progress.inDoubt = inDoubtBefore;
    return await conclude(call, progress, sent);
  } finally {
    giveBack();
  }
}

/** Writes the intent. Until the call is ended, it may have happened. */
async function start<Tx>(
  call: Call<Tx>,
  progress: Progress,
): Promise<{ readonly step: CallStep; readonly now: number }> {
  const { run, effect, intent } = call;
  const { runtime, held, steps } = run;
  if (!held.holds()) return lose(run);
  steps.noteRecorded();
  steps.noteOpenCall(effect.name);
  const started = await retryWhileHeld(runtime, held, () =>
    runtime.store.journal.startCall(held.owner(), intent),
  );
  if (started.kind === "returned") return started.value ?? lose(run);
  if (progress.inDoubt) throw started.error;
  // Nothing was sent now, but the intent may be stored.
  const unsent = await end(call, { event: "not_executed" }, unsentLimitMs);
  if (unsent !== true) return unconfirmed(call, started.error);
  throw started.error;
}

function sendInSpan<Tx>(call: Call<Tx>, sends: number): Promise<Sent> {
  const { run, effect, intent } = call;
  const { tracing } = run.runtime;
  if (tracing === null) return send(call);
  const attributes = {
    "latchkey.operation": run.operation.name,
    "latchkey.record.id": run.held.record().id,
    "latchkey.step": intent.name,
    "latchkey.effect": effect.name,
    "latchkey.send": sends,
  };
  return tracing.inSpan({ name: `call ${effect.name}`, kind: "internal", attributes }, async (span) => {
    const sent = await send(call);
    noteSent(span, sent);
    return sent;
  });
}

async function send<Tx>(call: Call<Tx>): Promise<Sent> {
  const { run, effect, intent } = call;
  const asking = { effect, key: intent.downstreamKey, signal: run.held.signal };
  const late = (value: unknown) => void settleLate(call, value);
  return sendEffect(run.runtime.ports.clock, asking, decodeJson(call.plainInput), late);
}
