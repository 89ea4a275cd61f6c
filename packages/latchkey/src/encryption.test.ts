import { createCipheriv, createHmac, createSecretKey, generateKeyPairSync } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { CodecContext } from "./codec.ts";
import { type EncryptionOptions, encryptionCodec } from "./encryption.ts";
import { fetchProtect } from "./http/fetch/fetch.ts";
import { createLatchkey } from "./latchkey.ts";
import { type MemoryTransaction, memoryStore } from "./stores/memory.ts";

const bytesFrom = (first: number) => Uint8Array.from({ length: 32 }, (_, index) => first + index);
const november = bytesFrom(0);
const december = bytesFrom(100);
const codecOf = (options: Partial<EncryptionOptions> = {}) =>
  encryptionCodec({ keys: { "2026-11": november }, current: "2026-11", ...options });

const context: CodecContext = {
  tenant: "acme",
  scope: "payments.create",
  key: "k-1",
  recordId: "01890000-0000-7000-8000-000000000001",
  fingerprint: new Uint8Array(32).fill(7),
  part: "answer",
};
const plain = Buffer.from('{"v":1}\nhello');

/**
 * Made by another program than the code under test (Python's `cryptography`), with the nonce a0 a1 … ab. It must decode for
 * ever.
 */
const golden = Buffer.from(
  "fe4c4b0107323032362d3131a0a1a2a3a4a5a6a7a8a9aaab" +
    "cc8a68ba96168b56d2fada2bfb8a6b84ddef6b190e50be4ca4f8053a3b",
  "hex",
);

const encoded = (options?: Partial<EncryptionOptions>, bytes: Uint8Array = plain, of = context) =>
  codecOf(options).encode(bytes, of) as Uint8Array;
const decoded = (stored: Uint8Array, of = context, options?: Partial<EncryptionOptions>) =>
  codecOf(options).decode(stored, of) as Uint8Array;

describe("the stored form", () => {
  test("decodes what was stored long ago", () => {
    expect(Buffer.from(decoded(golden))).toEqual(plain);
  });

  test("has the documented layout, and a nonce of its own", () => {
    const stored = Buffer.from(encoded());
    expect(stored.subarray(0, 12)).toEqual(golden.subarray(0, 12));
    expect(stored.byteLength).toBe(golden.byteLength);
    expect(stored).toEqual(sealedByHand(stored.subarray(12, 24)));
    expect(sealedByHand(golden.subarray(12, 24))).toEqual(golden);
  });

  test("never repeats a nonce, whatever ports a proof has", () => {
    const nonces = Array.from({ length: 10_000 }, () => Buffer.from(encoded()).toString("hex", 12, 24));
    expect(new Set(nonces).size).toBe(nonces.length);
  });

  test.each([0, 1, 100_000])("holds %i bytes", (size) => {
    const bytes = Buffer.alloc(size, 0x61);
    const stored = encoded({}, bytes);
    expect(stored.byteLength).toBe(size + 12 + 12 + 16);
    expect(bytes.equals(decoded(stored))).toBe(true);
  });

  test("is no valid UTF-8, so nothing takes it for a plain piece", () => {
    expect(() => new TextDecoder("utf-8", { fatal: true }).decode(encoded())).toThrow(TypeError);
  });
});

/** The format, written down a second time. */
function sealedByHand(nonce: Uint8Array): Buffer {
  const field = (tag: string, content: string | Uint8Array) => {
    const head = Buffer.alloc(5);
    head.write(tag, "latin1");
    head.writeUInt32BE(Buffer.byteLength(content), 1);
    return Buffer.concat([head, Buffer.from(content as string)]);
  };
  const { tenant, scope, key, recordId, fingerprint, part } = context;
  const texts = (...all: string[]) => Buffer.concat(all.map((text) => field("t", text)));
  const derived = createHmac("sha256", november).update(texts("latchkey record key 1", recordId)).digest();
  const cipher = createCipheriv("aes-256-gcm", derived, nonce);
  const place = texts("latchkey piece 1", "2026-11", tenant, scope, key, recordId);
  cipher.setAAD(Buffer.concat([place, field("b", fingerprint), field("t", part)]));
  const body = Buffer.concat([cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
  return Buffer.concat([Buffer.from("fe4c4b0107", "hex"), Buffer.from("2026-11"), nonce, body]);
}

describe("a piece decodes only where it was stored", () => {
  test.each<[string, Partial<CodecContext>]>([
    ["tenant", { tenant: "other" }],
    ["scope", { scope: "payments.refund" }],
    ["key", { key: "k-2" }],
    ["record", { recordId: "01890000-0000-7000-8000-000000000002" }],
    ["fingerprint", { fingerprint: new Uint8Array(32).fill(8) }],
    ["part", { part: "input" }],
    ["step", { part: "step-result:charge" }],
  ])("not under another %s", (_, other) => {
    expect(() => decoded(encoded(), { ...context, ...other })).toThrow(
      expect.objectContaining({ code: "decryption-failed" }),
    );
  });

  test("names that give the same text in a row are still different places", () => {
    const one = { ...context, tenant: "a", scope: "bc" };
    const stored = encoded({}, plain, one);
    expect(() => decoded(stored, { ...context, tenant: "ab", scope: "c" })).toThrow();
    const step = encoded({}, plain, { ...context, part: "step-result:a" });
    expect(() => decoded(step, { ...context, part: "step-result:b" })).toThrow();
    expect(() => decoded(step, { ...context, part: "call-input:a" })).toThrow();
  });

  test("no bit of it can be changed, and nothing cut off or added", () => {
    for (let bit = 0; bit < golden.byteLength * 8; bit++) {
      const changed = Buffer.from(golden);
      changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      expect(() => decoded(changed), `bit ${bit}`).toThrow(
        expect.objectContaining({ name: "LatchkeyError" }),
      );
    }
    for (let length = 0; length < golden.byteLength; length++) {
      expect(() => decoded(golden.subarray(0, length)), `${length} bytes`).toThrow(
        expect.objectContaining({ name: "LatchkeyError" }),
      );
    }
    expect(() => decoded(Buffer.concat([golden, Buffer.alloc(1)]))).toThrow();
  });

  test("the error tells nothing of what is stored", () => {
    try {
      decoded(encoded(), { ...context, tenant: "other" });
      expect.unreachable();
    } catch (error) {
      expect(`${error} ${JSON.stringify(error)} ${(error as Error).cause}`).not.toMatch(/hello|acme|k-1/);
    }
  });
});

describe("keys", () => {
  test("rotate: old ones decode, new pieces are under the current one", () => {
    const keys = { "2026-11": november, "2026-12": december };
    const stored = encoded({ keys, current: "2026-12" });
    expect(Buffer.from(stored).toString("latin1", 5, 12)).toBe("2026-12");
    for (const piece of [stored, golden]) {
      expect(Buffer.from(decoded(piece, context, { keys, current: "2026-12" }))).toEqual(plain);
    }
  });

  test("one that is not there is named", () => {
    const options = { keys: { "2026-12": december }, current: "2026-12" };
    expect(() => decoded(golden, context, options)).toThrow(
      expect.objectContaining({
        code: "encryption-key-unknown",
        message: expect.stringContaining('"2026-11"'),
      }),
    );
  });

  test("another under the same name does not decode", () => {
    expect(() => decoded(golden, context, { keys: { "2026-11": december } })).toThrow(
      expect.objectContaining({ code: "decryption-failed" }),
    );
  });

  test("may be a KeyObject, and are copied when they are bytes", () => {
    const keys = { "2026-11": createSecretKey(november) };
    expect(Buffer.from(decoded(golden, context, { keys }))).toEqual(plain);
    const wiped = Uint8Array.from(november);
    const codec = encryptionCodec({ keys: { "2026-11": wiped }, current: "2026-11" });
    wiped.fill(0);
    expect(Buffer.from(codec.decode(golden, context) as Uint8Array)).toEqual(plain);
  });

  test.each<[string, unknown]>([
    ["16 bytes", new Uint8Array(16)],
    ["33 bytes", new Uint8Array(33)],
    ["no bytes", new Uint8Array(0)],
    ["text of 32 characters", "x".repeat(32)],
    ["a KeyObject of 16 bytes", createSecretKey(new Uint8Array(16))],
    ["a public key", generateKeyPairSync("ed25519").publicKey],
    ["nothing", undefined],
  ])("%s are refused at construction", (_, key) => {
    const options = { keys: { a: key }, current: "a" } as unknown as EncryptionOptions;
    expect(() => encryptionCodec(options)).toThrow(
      new TypeError("Key a must be 32 bytes, as a Uint8Array or a secret KeyObject"),
    );
  });

  test.each<[string, unknown]>([
    ["an empty id", { keys: { "": november }, current: "" }],
    ["an id with a space", { keys: { "a b": november }, current: "a b" }],
    ["an id of 65 characters", { keys: { ["a".repeat(65)]: november }, current: "a".repeat(65) }],
    ["no keys", { keys: {}, current: "a" }],
    ["a current that is none of them", { keys: { a: november }, current: "b" }],
    ["a current from the prototype", { keys: { a: november }, current: "toString" }],
    ["no object of keys", { keys: undefined, current: "a" }],
    ["another word for plaintext", { keys: { a: november }, current: "a", plaintext: "allow" }],
  ])("%s is refused at construction", (_, options) => {
    expect(() => encryptionCodec(options as EncryptionOptions)).toThrow(TypeError);
  });
});

describe("pieces that are not encrypted", () => {
  test("are refused, unless an option says that they are still there", () => {
    expect(() => decoded(plain)).toThrow(expect.objectContaining({ code: "not-encrypted" }));
    expect(() => decoded(new Uint8Array(0))).toThrow(expect.objectContaining({ code: "not-encrypted" }));
    expect(decoded(plain, context, { plaintext: "read" })).toBe(plain);
    expect(decoded(plain, context, { plaintext: "write" })).toBe(plain);
  });

  test("while they are read, new ones are encrypted; what is encrypted and wrong still fails", () => {
    const stored = encoded({ plaintext: "read" });
    expect(Buffer.from(stored)).not.toEqual(plain);
    expect(() => decoded(stored, { ...context, key: "k-2" }, { plaintext: "read" })).toThrow(
      expect.objectContaining({ code: "decryption-failed" }),
    );
  });

  test("while they are written, encrypted ones are read", () => {
    expect(encoded({ plaintext: "write" })).toBe(plain);
    expect(Buffer.from(decoded(golden, context, { plaintext: "write" }))).toEqual(plain);
  });
});

describe("a record whose pieces cannot be decoded", () => {
  const request = { tenant: "t", key: "k", input: { amount: 1 } };
  const lost = { keys: { "2026-12": december }, current: "2026-12" };

  test.each(["transaction", "lease"] as const)(
    "under %s is an error, and never runs again",
    async (execution) => {
      const store = memoryStore();
      let runs = 0;
      const submit = (options?: Partial<EncryptionOptions> | "no codec") => {
        const codec = options === "no codec" ? {} : { codec: codecOf(options) };
        const latchkey = createLatchkey({ store, ...codec });
        const operation = latchkey.operation("cards.show", { execution, writes: "none" });
        return latchkey.run(operation, request, async () => ({ runs: ++runs }));
      };
      await submit();
      await expect(submit(lost)).rejects.toMatchObject({ code: "encryption-key-unknown" });
      await expect(submit("no codec"), "encryption was taken away").rejects.toThrow();
      expect(await submit({ keys: { ...lost.keys, "2026-11": november } })).toMatchObject({
        kind: "replay",
        value: { runs: 1 },
      });
      expect(runs).toBe(1);
    },
  );

  test("in a row from before encryption: refused, or read where an option allows it", async () => {
    const store = memoryStore();
    const submit = (options?: Partial<EncryptionOptions>) => {
      const latchkey = createLatchkey({ store, ...(options && { codec: codecOf(options) }) });
      const operation = latchkey.operation("cards.show", { writes: "none" });
      return latchkey.run(operation, request, async () => ({ first: options === undefined }));
    };
    await submit();
    await expect(submit({})).rejects.toMatchObject({ code: "not-encrypted" });
    expect(await submit({ plaintext: "read" })).toMatchObject({ kind: "replay", value: { first: true } });
  });

  test("over HTTP: the handler does not run, and the error is the framework's to answer", async () => {
    const store = memoryStore();
    let runs = 0;
    const submit = (options?: Partial<EncryptionOptions>) => {
      const latchkey = createLatchkey<MemoryTransaction>({ store, codec: codecOf(options) });
      const operation = latchkey.operation("cards.show", { writes: "none" });
      const handler = fetchProtect(latchkey, { singleTenant: true })(operation, () =>
        Response.json({ runs: ++runs }, { status: 201 }),
      );
      const headers = { "Idempotency-Key": "k" };
      return handler(new Request("https://api.example/cards", { method: "POST", headers }));
    };
    expect((await submit()).status).toBe(201);
    await expect(submit(lost)).rejects.toMatchObject({ code: "encryption-key-unknown" });
    expect((await submit()).headers.get("Idempotent-Replayed")).toBe("true");
    expect(runs).toBe(1);
  });

  test.each(["input", "step-result:order", "step-result:charged"])(
    "in its %s stops the attempt, whatever run makes of it, and goes on when it can be read",
    async (unreadable) => {
      const world = ownedWorld();
      await expect(world.submit({ fails: true })).rejects.toThrow("once more");
      await expect(world.submit({ unreadable })).rejects.toMatchObject({ code: "encryption-key-unknown" });
      expect(await world.submit({})).toMatchObject({ value: ["order", "charged"] });
      expect(world.done, "nothing ran twice").toEqual(["order", "charged"]);
    },
  );
});

/** A life of two steps, whose pieces can be made unreadable one by one. */
function ownedWorld() {
  const store = memoryStore();
  const done: string[] = [];
  const submit = ({ fails = false, unreadable = "" }) => {
    const codec = codecOf();
    const lost = codecOf({ keys: { "2026-12": december }, current: "2026-12" });
    const latchkey = createLatchkey<MemoryTransaction>({
      store,
      codec: {
        encode: codec.encode,
        decode: (stored, of) => (of.part === unreadable ? lost : codec).decode(stored, of),
      },
    });
    const charge = latchkey.effect("charge", {
      deduplication: "provider",
      dedupeWindowMs: 60_000,
      execute: async (_: { card: string }) => {
        done.push("charged");
        return "charged";
      },
    });
    const order = async () => {
      done.push("order");
      return "order";
    };
    const operation = latchkey.operation("orders.place", {
      execution: "lease",
      version: "1",
      run: async (_: { note: string }, attempt) => {
        const steps: unknown[] = [];
        for (const step of [
          () => attempt.phase("order", order),
          () => attempt.call("charged", charge, { card: "4111" }),
        ]) {
          steps.push(await step().catch((error: Error) => `failed: ${error.message}`));
        }
        if (fails) throw new Error("once more");
        return { status: 201, body: steps };
      },
    });
    return latchkey.run(operation, { tenant: "t", key: "k", input: { note: "n" } });
  };
  return { submit, done };
}
