/** Effects for the tests of the Postgres store. */
import { systemPorts } from "../../packages/latchkey/src/ports.ts";
import type { NewLife } from "../../packages/latchkey/src/stores/life.ts";
import type {
  DeliveryEnd,
  EffectClaim,
  NewEffect,
  OutboxEffect,
  OutboxSupport,
} from "../../packages/latchkey/src/stores/outbox.ts";
import type { Store } from "../../packages/latchkey/src/stores/store.ts";
import type { OpenTransaction } from "../../packages/latchkey/src/stores/transactions.ts";
import { commitOf, newKey, newLife, request, supportOf } from "./arrange.ts";
import type { TestTx } from "./harness.ts";

const { random, clock } = systemPorts;

export const leaseMs = 60_000;
export const result = new TextEncoder().encode("result");

export function newEffect(overrides: Partial<NewEffect> = {}): NewEffect {
  return {
    id: random.uuid(clock.wallMs()),
    effect: "send",
    downstreamKey: `lk_${random.token()}`,
    step: "",
    index: 0,
    aggregate: null,
    ordered: false,
    input: new TextEncoder().encode("input"),
    delayMs: 0,
    ...overrides,
  };
}

/** A transaction with a business row and these effects, that lets `then` happen before its last statements. */
export function enqueuing(
  store: Store<TestTx>,
  effects: readonly NewEffect[],
  then: (open: OpenTransaction<TestTx>) => Promise<unknown> = async () => {},
  life: NewLife = newLife(newKey()),
) {
  return supportOf(store).run(request(life), async (open) => {
    await open.tx.query("insert into business values ($1)", [life.key]);
    await then(open);
    return commitOf(life, null, { effects });
  });
}

export function outboxOf({ outbox }: Store<TestTx>): OutboxSupport {
  if (outbox === null) throw new Error("the store has an outbox");
  return outbox;
}

export function claim(store: Store<TestTx>, limit = 100, effect = "send") {
  return outboxOf(store).claim([{ effect, limit }], random.token(), leaseMs);
}

export function claimOf({ id, fence }: EffectClaim): EffectClaim {
  return { id, fence };
}

export function delivered(effect: OutboxEffect, of: Uint8Array | null = result): DeliveryEnd {
  return { ...claimOf(effect), event: "deliver", result: of, keepMs: 3_600_000 };
}

/** A delivery of which nothing is kept. */
export function removed(effect: OutboxEffect): DeliveryEnd {
  return { ...claimOf(effect), event: "deliver", result, keepMs: 0 };
}

export const idsOf = (effects: readonly { readonly id: string }[]) => effects.map(({ id }) => id);
