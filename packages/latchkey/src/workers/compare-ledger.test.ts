import { expect, test } from "vitest";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import { createLatchkey } from "../latchkey.ts";
import { type MemoryTransaction, memoryStore } from "../stores/memory.ts";
import { effectDispatcher } from "./effect-dispatcher.ts";

interface Sent {
  readonly n: number;
}

async function* each<T>(things: readonly T[]): AsyncGenerator<T> {
  yield* things;
}

/** `count` finished calls, a millisecond apart. */
async function ledgerOf(count: number) {
  const ports = manualPorts();
  const store = memoryStore({ ports });
  const seal = (bytes: Uint8Array) => Buffer.from(bytes.map((byte) => byte ^ 0x55));
  const latchkey = createLatchkey<MemoryTransaction>({ store, ports, codec: { encode: seal, decode: seal } });
  const provider: { key: string; n: number }[] = [];
  const send = async (input: Sent, call: { readonly key: string }) => {
    provider.push({ key: call.key, n: input.n });
    return input;
  };
  const effect = latchkey.effect<Sent, Sent>("send", { deduplication: "none", execute: send });
  const other = latchkey.effect<Sent, Sent>("other", { deduplication: "none", execute: send });
  const operation = latchkey.operation("op", {
    execution: "lease",
    version: "1",
    run: async (input: Sent, attempt) => ({
      body: await attempt.call("sent", input.n < 0 ? other : effect, input),
    }),
  });
  const from = ports.clock.wallMs();
  const run = (n: number) => latchkey.run(operation, { tenant: "t", key: `k${n}`, input: { n } });
  for (let n = 0; n < count; n++) {
    await run(n);
    if (n % 100 === 99) await ports.clock.advance(1);
  }
  await ports.clock.advance(1);
  return { ports, latchkey, effect, provider, run, from, to: ports.clock.wallMs() };
}

test("matches ledgers of more than one page", async () => {
  const { latchkey, effect, provider, from, to } = await ledgerOf(1_203);
  const matches = (object: Sent, result: Sent) => object.n === result.n;
  const report = await latchkey.compareLedger({ effect, objects: each(provider), from, to, matches });
  expect(report).toEqual({ matched: 1_203, missing: [], extra: [], mismatched: [] });
});

test("reports missing, extra, duplicate and different objects", async () => {
  const { latchkey, effect, provider, run, from, to } = await ledgerOf(1_100);
  await run(-1);
  const objects = provider.map((object) => ({ ...object }));
  const foreign = objects.pop();
  const lost = objects.splice(1_050, 1);
  const different = objects[3];
  if (different === undefined || foreign === undefined) throw new Error("too few");
  different.n = 99;
  const unknownEntry = { key: "lk_nobody", n: 1 };
  const doubled = { ...(objects[5] ?? unknownEntry) };
  const given = each([...objects, unknownEntry, doubled, foreign]);
  const report = await latchkey.compareLedger({
    effect,
    objects: given,
    from,
    to,
    matches: (object, result) => object.n === result.n,
  });
  expect(report.matched).toBe(1_098);
  expect(report.missing).toMatchObject([
    { downstreamKey: lost[0]?.key, record: { tenant: "t", scope: "op", key: "k1050" }, step: "sent" },
  ]);
  expect(report.extra).toEqual([unknownEntry, doubled]);
  expect(report.mismatched).toMatchObject([
    { object: different, state: "finished" },
    { object: foreign, state: "finished" },
  ]);
});

test("reports only calls between `from` and `to` as missing", async () => {
  const { ports, latchkey, effect, run, from, to } = await ledgerOf(2);
  await ports.clock.advance(10);
  await run(7);
  const report = await latchkey.compareLedger({ effect, objects: each([]), from, to });
  expect(report.missing).toHaveLength(2);
});

interface Charge extends Sent {
  readonly key: string;
}

test("includes deliveries of the outbox, besides the calls of steps", async () => {
  const ports = manualPorts();
  const latchkey = createLatchkey<MemoryTransaction>({ store: memoryStore({ ports }), ports });
  const provider: Charge[] = [];
  const execute = async (input: { readonly n: number }, { key }: { readonly key: string }) => {
    const object = { key, n: input.n };
    provider.push(object);
    return object;
  };
  const effect = latchkey.effect<{ n: number }, Charge>("charge", {
    deduplication: "provider",
    dedupeWindowMs: 3_600_000,
    execute,
  });
  const placed = latchkey.operation("order");
  const charged = latchkey.operation("direct", {
    execution: "lease",
    version: "1",
    run: async (input: { n: number }, attempt) => ({ body: await attempt.call("charged", effect, input) }),
  });
  const from = ports.clock.wallMs();
  for (const n of [1, 2, 3]) {
    await latchkey.run(
      placed,
      { tenant: "t", key: `o${n}`, input: null },
      async ({ attempt }) => void attempt.enqueue(effect, { n }),
    );
  }
  await latchkey.run(charged, { tenant: "t", key: "d", input: { n: 4 } });
  await effectDispatcher(latchkey).runOnce();
  await ports.clock.advance(1);
  const compare = (objects: readonly Charge[]) =>
    latchkey.compareLedger({
      effect,
      objects: each(objects),
      from,
      to: ports.clock.wallMs(),
      matches: (object, result) => object.n === result.n,
    });
  expect(provider).toHaveLength(4);
  expect(await compare(provider)).toEqual({ matched: 4, missing: [], extra: [], mismatched: [] });
  const [lost, , other] = provider.filter(({ n }) => n < 4);
  const objects = provider
    .filter((object) => object !== lost)
    .map((object) => (object === other ? { ...object, n: 99 } : object));
  const report = await compare([...objects, { key: "lk_nobody", n: 5 }]);
  expect(report).toMatchObject({
    matched: 2,
    missing: [
      { downstreamKey: lost?.key, record: { tenant: "t", scope: "order", key: `o${lost?.n}` }, step: "" },
    ],
    extra: [{ key: "lk_nobody" }],
    mismatched: [{ object: { key: other?.key }, state: "delivered" }],
  });
});
