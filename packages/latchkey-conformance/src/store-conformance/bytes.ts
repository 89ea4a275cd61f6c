/** Stored values come back byte for byte and character for character. */
import assert from "node:assert/strict";
import type { RecordKey } from "latchkey";
import type { NewLife } from "latchkey/internal";
import {
  completion,
  createRunning,
  defaultRetention,
  defaultTerms,
  newKey,
  newLife,
  readRecord,
} from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { hex, sameRecord } from "./check.ts";

const everyByte = Uint8Array.from({ length: 256 }, (_, value) => value);

/** Bytes that some ways of storing them would change. */
export const oddBytes: readonly (readonly [what: string, bytes: Uint8Array])[] = [
  ["no bytes", new Uint8Array()],
  ["every value of a byte", everyByte],
  ["every value of a byte, in reverse", everyByte.toReversed()],
  ["a trailing zero", new Uint8Array([1, 2, 0])],
  ["a leading zero", new Uint8Array([0, 1, 2])],
  ["only zeros", new Uint8Array(16)],
  ["bytes that are not UTF-8", new Uint8Array([0xff, 0xfe, 0xc3, 0x28, 0xed, 0xa0, 0x80])],
  ["a byte order mark", new Uint8Array([0xef, 0xbb, 0xbf, 0x7b, 0x7d])],
  ["line ends", new TextEncoder().encode("a\r\nb\nc\rd")],
  ["a view into a larger buffer", everyByte.subarray(100, 120)],
  ["text that looks like hexadecimal bytes", new TextEncoder().encode("\\x00ff")],
  ["1 MiB", Uint8Array.from({ length: 1_048_576 }, (_, index) => (index * 31 + (index >> 8)) % 256)],
];

const answerCases: readonly StoreCase[] = oddBytes.map(([what, bytes]) => ({
  name: `bytes: an answer of ${what} comes back unchanged`,
  async run(context) {
    for (const event of ["complete", "fail"] as const) {
      const key = newKey();
      const { id, fence } = await createRunning(context, key);
      const end = { event, answer: Uint8Array.from(bytes), retention: defaultRetention, errorCode: null };
      assert.ok(await context.store.end(key, id, fence, end));
      const { record } = await context.other.read(key);
      assert.ok((record?.state === "completed" || record?.state === "failed") && record.answer !== null);
      assert.equal(record.answer.length, bytes.length);
      assert.ok(hex(record.answer) === hex(bytes), "every byte must be the same");
    }
  },
}));

const visibleAscii = Array.from({ length: 94 }, (_, index) => String.fromCharCode(33 + index)).join("");

export const oddTexts: readonly (readonly [what: string, text: string])[] = [
  ["all visible ASCII", visibleAscii],
  ["255 characters", "k".repeat(255)],
  ["quotes", `'"\`''""`],
  ["SQL", "'); DROP TABLE records; --"],
  ["placeholders", "$1 ? :name @name %s {0}"],
  ["JSON", '{"a":[1,null]}'],
  ["backslashes and escapes", "\\n\\x00\\u0000\\"],
  ["other alphabets", "Ελλάδα العربية 日本語"],
  ["characters outside the basic plane", "🔑🧪𝒳"],
  ["combining characters and joiners", "e\u0301 👩\u200d💻"],
  ["white space of all kinds", " \t\r\n\u00a0\u2003\ufeff "],
  ["words with a special meaning elsewhere", "null"],
  ["names of an object's properties", "__proto__"],
];

async function comesBack(context: CaseContext, key: RecordKey, overrides: Partial<NewLife>): Promise<void> {
  const life = newLife(key, overrides);
  const created = await context.store.create(life, null, defaultTerms);
  assert.ok(created);
  const { createdAt, leaseEndsAt, expiresAt } = created;
  const expected = { ...life, state: "in_progress", createdAt, leaseEndsAt, expiresAt } as const;
  sameRecord((await context.other.read(key)).record, expected, "every field must be as given");
}

const textCases: readonly StoreCase[] = oddTexts.map(([what, text]) => ({
  name: `bytes: ${what} in tenant, scope, key, operation and principal come back unchanged`,
  async run(context) {
    await comesBack(context, newKey({ tenant: text }), {});
    await comesBack(context, newKey({ scope: text }), {});
    await comesBack(context, newKey({ key: text }), {});
    await comesBack(context, newKey(), { operation: text, principal: text });
    const key = newKey();
    const { id, fence } = await createRunning(context, key);
    await context.store.end(key, id, fence, { event: "retry_later", errorCode: text, resumeAfterMs: null });
    const record = await readRecord(context, key);
    assert.ok(record.state === "retryable");
    assert.equal(record.lastErrorCode, text);
  },
}));

export const bytesCases: readonly StoreCase[] = [
  ...answerCases,
  ...textCases,
  {
    name: "bytes: no principal and an empty one are different",
    async run(context) {
      await comesBack(context, newKey(), { principal: null });
      await comesBack(context, newKey(), { principal: "" });
    },
  },
  {
    name: "bytes: fingerprints of any version and digest come back unchanged",
    async run(context) {
      const digests = [everyByte.subarray(224), new Uint8Array(32), new Uint8Array([0x31, 0x32, 0])];
      for (const [index, digest] of digests.entries()) {
        await comesBack(context, newKey(), { fingerprint: { version: index * 100, digest } });
      }
    },
  },
  {
    name: "bytes: tokens that differ in one digit are different, even beyond the precision of a number",
    async run(context) {
      for (const token of ["0".repeat(32), "f".repeat(32), `${"9".repeat(31)}1`, "00e1".padEnd(32, "0")]) {
        const key = newKey();
        await comesBack(context, key, { fence: { attempt: 1, token } });
        const { id } = await readRecord(context, key);
        const near = `${token.slice(0, 31)}${token.endsWith("0") ? "1" : "0"}`;
        const end = completion();
        assert.equal(await context.store.end(key, id, { attempt: 1, token: near }, end), null);
        assert.ok(await context.store.end(key, id, { attempt: 1, token }, end));
      }
    },
  },
];
