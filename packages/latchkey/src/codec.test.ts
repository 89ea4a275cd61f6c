import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, test } from "vitest";
import { manualPorts } from "../../../test/support/manual-ports.ts";
import { scratchDirectory } from "../../../test/support/scratch.ts";
import { type Codec, type CodecContext, identityCodec, isIdentityCodec } from "./codec.ts";
import { codecLimitMs } from "./execution/bounded-codec.ts";
import { createLatchkey } from "./latchkey.ts";
import { memoryStore } from "./stores/memory.ts";

/** Ciphers nothing, but keeps what an encrypting codec would authenticate in front of the bytes. */
function sealing(): Codec & { readonly contexts: CodecContext[] } {
  const contexts: CodecContext[] = [];
  const seal = (context: CodecContext) => {
    contexts.push(context);
    const { tenant, scope, key, recordId, fingerprint } = context;
    return Buffer.from(`${JSON.stringify([tenant, scope, key, recordId, [...fingerprint]])}\0`);
  };
  return {
    contexts,
    encode: async (plain, context) => Buffer.concat([seal(context), plain.map((byte) => byte ^ 0xff)]),
    decode: async (stored, context) => {
      const sealed = seal(context);
      const front = Buffer.from(stored.subarray(0, sealed.length));
      if (!front.equals(sealed)) throw new Error("This answer belongs to another record");
      return stored.subarray(sealed.length).map((byte) => byte ^ 0xff);
    },
  };
}

const secret = "4111 1111 1111 1111";
const request = { tenant: "t", key: "k", input: { amount: 1 } };

test.each(["transaction", "lease"] as const)(
  "under %s an answer is stored encoded and replayed decoded",
  async (execution) => {
    const codec = sealing();
    const store = memoryStore();
    const latchkey = createLatchkey({ store, codec });
    const operation = latchkey.operation("cards.show", { execution, writes: "none" });
    const run = () => latchkey.run(operation, request, async () => ({ secret }));
    expect(await run()).toMatchObject({ kind: "executed", value: { secret } });
    expect(await run()).toMatchObject({ kind: "replay", value: { secret } });
    const { record } = await store.read({ tenant: "t", scope: "cards.show", key: "k" });
    if (record?.state !== "completed" || record.answer === null) throw new Error("no answer");
    expect(Buffer.from(record.answer).toString("latin1")).not.toContain(secret);
    const [encoded, decoded] = codec.contexts;
    expect(encoded).toMatchObject({ tenant: "t", scope: "cards.show", key: "k", recordId: record.id });
    expect(decoded).toEqual(encoded);
  },
);

test("an answer that does not decode is an error for the caller, never a second run", async () => {
  const store = memoryStore();
  let starts = 0;
  const runWith = (codec: Codec) => {
    const latchkey = createLatchkey({ store, codec });
    const operation = latchkey.operation("cards.show", { writes: "none" });
    return latchkey.run(operation, request, async () => {
      starts += 1;
      return { secret };
    });
  };
  await runWith(sealing());
  const swapped = sealing();
  const decode: Codec["decode"] = (stored, context) =>
    swapped.decode(stored, { ...context, tenant: "other" });
  await expect(runWith({ ...swapped, decode })).rejects.toThrow("another record");
  expect(starts).toBe(1);
});

describe("a codec that does not answer", () => {
  const silence = () => new Promise<Uint8Array>(() => {});

  test.each(["transaction", "lease"] as const)(
    "to encode, under %s: an error in the end",
    async (execution) => {
      const ports = manualPorts();
      const store = memoryStore();
      const latchkey = createLatchkey({ store, ports, codec: { ...sealing(), encode: silence } });
      const operation = latchkey.operation("cards.show", { execution, writes: "none" });
      const running = latchkey.run(operation, request, async () => ({ secret }));
      const ended = expect(running).rejects.toMatchObject({ code: "codec-timeout" });
      await ports.clock.advance(codecLimitMs);
      await ended;
      const { record } = await store.read({ tenant: "t", scope: "cards.show", key: "k" });
      expect(record).toEqual(
        execution === "transaction"
          ? null
          : expect.objectContaining({ state: "unknown", lastErrorCode: "answer-not-encoded" }),
      );
    },
  );

  test("to decode: an error for the caller, and nothing runs", async () => {
    const ports = manualPorts();
    const store = memoryStore();
    let starts = 0;
    const runWith = (codec: Codec) => {
      const latchkey = createLatchkey({ store, ports, codec });
      const operation = latchkey.operation("cards.show", { writes: "none" });
      return latchkey.run(operation, request, async () => ++starts);
    };
    await runWith(sealing());
    const ended = expect(runWith({ ...sealing(), decode: silence })).rejects.toMatchObject({
      code: "codec-timeout",
    });
    await ports.clock.advance(codecLimitMs);
    await ended;
    expect(starts).toBe(1);
  });
});

test("an answer that does not encode is not stored, and the work is rolled back", async () => {
  const store = memoryStore();
  const encode = () => {
    throw new Error("no key");
  };
  const latchkey = createLatchkey({ store, codec: { ...sealing(), encode } });
  const operation = latchkey.operation("cards.create");
  const run = latchkey.run(operation, request, ({ tx }) => tx.insert("cards", {}));
  await expect(run).rejects.toThrow("no key");
  expect(store.rows("cards")).toHaveLength(0);
  expect((await store.read({ tenant: "t", scope: "cards.create", key: "k" })).record).toBeNull();
});

test("the identity of another copy of the package is known; what was made from it is not", async () => {
  const file = join(scratchDirectory("us"), "codec.ts");
  copyFileSync(join(import.meta.dirname, "codec.ts"), file);
  const copy: typeof import("./codec.ts") = await import(/* @vite-ignore */ pathToFileURL(file).href);
  expect(copy.identityCodec).not.toBe(identityCodec);
  expect(isIdentityCodec(copy.identityCodec)).toBe(true);
  expect(copy.isIdentityCodec(identityCodec)).toBe(true);
  expect(isIdentityCodec({ ...identityCodec })).toBe(false);
  expect(isIdentityCodec({ ...copy.identityCodec, encode: (plain) => plain })).toBe(false);
});
