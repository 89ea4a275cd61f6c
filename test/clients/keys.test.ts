/** The advice about keys, and that the document shows the code that is tested here. */
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { problemTypes } from "../../packages/latchkey/src/http/protocol/problem-types.ts";
import { documentShows } from "./document.ts";
import { newKey, submit } from "./settings/keys.ts";

const settings = new URL("./settings/", import.meta.url);

test.each(readdirSync(settings))("docs/clients.md shows settings/%s as it was tested", (name) => {
  expect(documentShows(readFileSync(new URL(name, settings), "utf8"))).toBe(true);
});

describe("newKey", () => {
  test("it is a UUIDv7 with its time", () => {
    const key = newKey(0x0123_4567_89ab);
    expect(key).toMatch(/^01234567-89ab-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/u);
    expect(newKey()).toMatch(/^0[0-9a-f]{7}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/u);
  });

  test("every one is another, and all values of the variant occur", () => {
    const keys = Array.from({ length: 1_000 }, () => newKey(1));
    expect(new Set(keys).size).toBe(1_000);
    expect(new Set(keys.map((key) => key[19]))).toEqual(new Set(["8", "9", "a", "b"]));
  });
});

describe("submit", () => {
  test("it keeps key and body until the answer is final", async () => {
    const storage = memoryStorage();
    const sent: string[][] = [];
    const answers = [null, 503, 409, 500, 401, 429, 201, 422];
    const send = async (key: string, body: string) => {
      const status = answers[sent.length];
      sent.push([key, body]);
      if (typeof status !== "number") throw new TypeError("fetch failed");
      return new Response(null, { status });
    };
    await expect(submit(storage, "order", { amount: 1 }, send)).rejects.toThrow("fetch failed");
    // From here on as after a reload: the form may have been filled in differently.
    for (const status of [503, 409, 500, 401, 429, 201]) {
      expect(storage.getItem("order")).not.toBeNull();
      const { response, isEarlier } = await submit(storage, "order", { amount: 2 }, send);
      expect([response.status, isEarlier]).toEqual([status, true]);
    }
    expect(new Set(sent.map(String)).size).toBe(1);
    expect(sent[0]?.[1]).toBe('{"amount":1}');
    expect(storage.getItem("order")).toBeNull();
    expect((await submit(storage, "order", { amount: 2 }, send)).isEarlier).toBe(false);
    expect(sent.at(-1)?.[0]).not.toBe(sent[0]?.[0]);
    expect(sent.at(-1)?.[1]).toBe('{"amount":2}');
    expect(storage.getItem("order")).toBeNull();
  });

  test.each([
    [false, true],
    [true, false],
  ])("in an envelope of the service's own, safe_new_key: %s counts", async (safe, kept) => {
    const storage = memoryStorage();
    const send = async () =>
      Response.json({ message: "no", safe_new_key: safe }, { status: safe ? 502 : 422 });
    await submit(storage, "order", { amount: 1 }, send);
    expect(storage.getItem("order") !== null).toBe(kept);
  });

  test.each(Object.entries(problemTypes))(
    "after %s it keeps the key unless another is safe",
    async (code, kind) => {
      const storage = memoryStorage();
      const { status, retryable, safeNewKey } = kind;
      const problem = JSON.stringify({ code, status, retryable, safe_new_key: safeNewKey });
      const send = async () =>
        new Response(problem, { status, headers: { "Content-Type": "application/problem+json" } });
      const { response } = await submit(storage, "order", { amount: 1 }, send);
      expect(await response.json()).toMatchObject({ code });
      expect(storage.getItem("order") === null).toBe(safeNewKey);
    },
  );
});

function memoryStorage(): Storage {
  const items = new Map<string, string>();
  return {
    get length() {
      return items.size;
    },
    clear: () => items.clear(),
    getItem: (name) => items.get(name) ?? null,
    key: (index) => [...items.keys()][index] ?? null,
    removeItem: (name) => void items.delete(name),
    setItem: (name, value) => void items.set(name, value),
  };
}
