/**
 * Calls: the intent is written before a send, the result after it. A call that is not known to have ended is never sent again,
 * except to a provider that deduplicates, inside its window, with the same key and the same stored input.
 */
import { downstreamKey } from "../../effects/downstream-key.ts";
import type { AnyEffect } from "../../effects/run-effect.ts";
import { NotExecuted } from "../../errors.ts";
import type { CallIntent, CallStep } from "../../stores/journal.ts";
import { encodeJson } from "../stored-values.ts";
import { type OwnedRun, plainJson, storedJson } from "./attempt-context.ts";
import { type Call, doubt, ended } from "./call-ends.ts";
import { begin } from "./call-sends.ts";
import type { BegunStep } from "./steps.ts";

export async function runCall<Tx>(
  run: OwnedRun<Tx>,
  step: BegunStep,
  effect: AnyEffect,
  input: unknown,
): Promise<unknown> {
  if (run.runtime.effects.get(effect.name) !== effect) {
    throw new TypeError(`Call ${step.name}: effect ${effect.name} was not made by this latchkey's effect()`);
  }
  const { stored } = step;
  if (stored === null) return begin(await newCall(run, step, effect, input), false);
  if (stored.kind !== "call" || stored.effect !== effect.name) {
    return run.steps.change(
      `Step ${step.name} was ${stored.kind === "call" ? `a call of ${stored.effect}` : "a phase"} in an earlier attempt`,
    );
  }
  return resume(run, step, effect, stored);
}

async function resume<Tx>(
  run: OwnedRun<Tx>,
  step: BegunStep,
  effect: AnyEffect,
  stored: CallStep,
): Promise<unknown> {
  const { runtime, held, steps } = run;
  switch (stored.state) {
    case "finished":
    case "refused": {
      const about = runtime.about(run.operation.name, held.record());
      runtime.emit({ ...about, type: "step_resumed", recordId: held.record().id, step: step.name });
      return ended(run, stored);
    }
    case "not_executed":
      // `run` has taken another path since: sending now would add an effect.
      if (steps.isPast(stored))
        throw new NotExecuted({ message: `Call ${step.name} did not happen in an earlier attempt` });
      return begin(await storedCall(run, effect, stored), false);
    case "started":
      steps.noteOpenCall(effect.name);
      if (effect.settings.deduplication !== "provider") return doubt(run, step.name, effect, "call-in-doubt");
      return begin(await doubtful(run, effect, stored), true);
    default:
      return stored.state satisfies never;
  }
}

/** `run` must not continue past a call that is in doubt because its input could not be read. */
async function doubtful<Tx>(run: OwnedRun<Tx>, effect: AnyEffect, stored: CallStep): Promise<Call<Tx>> {
  try {
    return await storedCall(run, effect, stored);
  } catch (error) {
    return doubt(run, stored.name, effect, "call-in-doubt", error);
  }
}

async function newCall<Tx>(
  run: OwnedRun<Tx>,
  step: BegunStep,
  effect: AnyEffect,
  input: unknown,
): Promise<Call<Tx>> {
  const { runtime, held, operation } = run;
  const record = held.record();
  const plainInput = encodeJson(`The input of call ${step.name}`, input);
  const generation = 0;
  const place = { recordId: record.id, step: step.name, effect: effect.name, index: 0, generation };
  const intent: CallIntent = {
    name: step.name,
    position: step.position,
    version: operation.work.version,
    effect: effect.name,
    generation,
    downstreamKey: downstreamKey(place),
    input: await storedJson(
      runtime,
      record,
      `call-input:${step.name}`,
      `The input of call ${step.name}`,
      input,
    ),
  };
  return { run, effect, intent, plainInput };
}

async function storedCall<Tx>(run: OwnedRun<Tx>, effect: AnyEffect, stored: CallStep): Promise<Call<Tx>> {
  const { name, position, version, generation, input } = stored;
  const intent = {
    name,
    position,
    version,
    effect: effect.name,
    generation,
    downstreamKey: stored.downstreamKey,
    input,
  };
  const value = await plainJson(run.runtime, run.held.record(), `call-input:${name}`, input);
  return { run, effect, intent, plainInput: encodeJson(`The input of call ${name}`, value) };
}
