/** Every fault of a call to the store, at every call of a delivery. */
import { describe, expect, test } from "vitest";
import { type ChargeOptions, deliveryWorld } from "../../../../test/support/delivery-world.ts";
import type { EffectKind, SendFault } from "../../../../test/support/downstream-ledger.ts";
import { sample } from "../../../../test/support/thorough.ts";
import type { Fault, StoreCall } from "../testing/faulty-store/fault.ts";

const kinds: readonly EffectKind[] = ["provider", "lookup", "close", "reopen", "none"];
const faults = [
  "not_sent",
  "request_lost",
  "reply_lost",
  "crash_before",
  "crash_after",
] as const satisfies Fault[];
const sendFaults: readonly SendFault[] = ["proceed", "lost_before", "lost_after"];
/** Calls for hints are left out, because nothing depends on them. */
const counted = ({ port }: StoreCall) => !port.toLowerCase().includes("hint");
/** More calls than a delivery makes until it ends. */
const callsMax = 60;

interface LeasedWork {
  readonly kind: EffectKind;
  readonly first: SendFault;
  readonly fault: Fault;
  readonly effect?: ChargeOptions;
}

/** One charge, with the fault at the `at`th call of a process, then a process without faults. False: there was no such call. */
async function survives({ kind, first, fault, effect = {} }: LeasedWork, at: number): Promise<boolean> {
  const world = deliveryWorld(kind);
  await world.enqueue(5);
  const faultsOfSend = [first];
  let calls = 0;
  const plan = (call: StoreCall) => {
    if (counted(call)) calls += 1;
    return counted(call) && calls === at ? fault : "proceed";
  };
  const delivery = { attemptsMax: 6, backoffMs: 100, backoffMaxMs: 100 };
  const faulty = world.start({
    plan,
    effect: { delivery, ...effect },
    send: () => faultsOfSend.shift() ?? "proceed",
  });
  faulty.dispatcher.start();
  await world.ports.clock.advance(3_000);
  const reached = calls >= at;
  faulty.kill();
  const healthy = world.start({ effect: { delivery, ...effect } });
  healthy.dispatcher.start();
  await world.ports.clock.advance(30_000);
  await healthy.dispatcher.stop();
  const what = `${kind} ${first} ${JSON.stringify(fault)} at call ${at}`;
  expect(await world.open(), what).toEqual([]);
  const [delivered, dead] = await Promise.all([world.inState("delivered"), world.inState("dead")]);
  expect(delivered.length + dead.length, what).toBe(1);
  expect(world.ledger.charges.length, what).toBeLessThanOrEqual(1);
  if (delivered.length > 0) expect(world.ledger.charges, what).toHaveLength(1);
  if (kind === "provider" || kind === "reopen") expect(delivered, what).toHaveLength(1);
  expect(world.store.rows("receipts").length, what).toBe(effect.onDelivered ? delivered.length : 0);
  return reached;
}

describe.each(kinds)("%s", (kind) => {
  test.each(faults)(
    "%s at any call: at most one charge in the ledger, and the effect is delivered or dead",
    async (fault) => {
      for (const first of sample(sendFaults, 1)) {
        let at = 1;
        while (at < callsMax && (await survives({ kind, first, fault }, at))) at += 1;
        expect(at).toBeGreaterThan(3);
      }
    },
  );

  test.each(faults)(
    "%s at any call of a delivery with `onDelivered`: it takes effect once",
    async (fault) => {
      const onDelivered: ChargeOptions["onDelivered"] = ({ result }, tx) =>
        tx.insert("receipts", { id: result.id });
      const effect = { onDelivered };
      let at = 1;
      while (at < callsMax && (await survives({ kind, first: "proceed", fault, effect }, at))) at += 1;
      expect(at).toBeGreaterThan(5);
    },
  );
});
