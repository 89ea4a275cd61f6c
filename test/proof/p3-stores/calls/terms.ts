/**
 * Durations and small things that calls are made with. All durations are whole seconds, and every call comes a millisecond
 * after the one before: so no two calls set the same time.
 */
import type { Fingerprint, RecordKey } from "../../../../packages/latchkey/src/engine/record.ts";
import type { NewLife } from "../../../../packages/latchkey/src/stores/life.ts";
import type { LeaseTerms, Retention } from "../../../../packages/latchkey/src/stores/store.ts";
import type { Choices } from "../../p2-random/choices.ts";
import { type CallWorld, operations } from "./world.ts";

const second = 1_000;

export function someKey(choices: Choices, world: CallWorld): RecordKey {
  return choices.oneIn(16) ? choices.pick(world.keys) : world.key;
}

export function leaseTerms(choices: Choices): LeaseTerms {
  return {
    leaseMs: choices.pick([10, 5, 60]) * second,
    leaseEnd: choices.pick(["resume", "rerun", "reconcile"]),
    attemptsMax: choices.pick([3, 1, 2]),
    abandonAfterMs: choices.pick([3_600, 60, 86_400]) * second,
  };
}

export function retention(choices: Choices): Retention {
  return choices.pick([
    { retentionMs: 60 * second, forgetAfterMs: 120 * second },
    { retentionMs: 60 * second, forgetAfterMs: 60 * second },
    { retentionMs: 0, forgetAfterMs: 3_600 * second },
  ]);
}

/** Null: never by itself. */
export function someDelay(choices: Choices): number | null {
  return choices.pick([0, 5 * second, 60 * second, null]);
}

export function limit(choices: Choices, { inBatches }: CallWorld): number {
  return inBatches ? 100 : choices.pick([1, 2, 3, 100]);
}

/** Of a call that sets one time for all that it takes. */
export function takingLimit({ inBatches }: CallWorld): number {
  return inBatches ? 100 : 1;
}

const fingerprints: readonly Fingerprint[] = [
  { version: 1, digest: new Uint8Array(32).fill(7) },
  { version: 1, digest: new Uint8Array(32).fill(8) },
  { version: 2, digest: new Uint8Array(32).fill(7) },
];

export function otherFingerprint(choices: Choices): Fingerprint {
  return choices.pick(fingerprints);
}

export function newLife(choices: Choices, world: CallWorld, key: RecordKey): NewLife {
  const operation = key.scope === "*" ? choices.pick(operations) : key.scope;
  const life: NewLife = {
    ...key,
    id: world.id(),
    operation,
    fingerprint: choices.oneIn(4) ? otherFingerprint(choices) : (fingerprints[0] as Fingerprint),
    principal: choices.oneIn(4) ? "p" : null,
    fence: { attempt: 1, token: world.token() },
    ...(choices.oneIn(2) ? { input: world.bytes("input") } : {}),
    addressable: choices.oneIn(2),
  };
  world.recordIds.push(life.id);
  return life;
}
