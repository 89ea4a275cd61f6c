/** What every storage promises; test/latchkey-client runs the same on IndexedDB in a real browser. */
import { describe, expect, test } from "vitest";
import { checkStorage, keptRecord } from "../../../../test/support/check-client-storage.ts";
import { indexedDbStorage } from "./indexed-db.ts";
import { memoryStorage } from "./memory.ts";
import { decodeRecord, encodeRecord, type WebStorage, webStorage } from "./web-storage.ts";

test("memory", () => checkStorage(memoryStorage(), 1));
test("web storage", () => checkStorage(webStorage(tabStorage()), 1));

describe("webStorage", () => {
  test("a storage opened again has what was kept, and leaves the page's own entries alone", async () => {
    const tab = tabStorage();
    tab.setItem("theme", "dark");
    await checkStorage(webStorage(tab), 1);
    const record = (await webStorage(tab).list())[0];
    expect(record?.[0]).toBe("kept");
    expect(tab.getItem("theme")).toBe("dark");
    expect(tab.getItem("latchkey:kept")).toContain('"key":"kept-key"');
    expect(await webStorage(tab, "other:").list()).toEqual([]);
  });
});

test("a record of text gives every byte back, also of a body of a megabyte", () => {
  const body = Uint8Array.from({ length: 1_000_003 }, (_, index) => (index * 31) & 255);
  const decoded = decodeRecord(encodeRecord({ ...keptRecord, body }));
  expect(Buffer.from(decoded.body ?? []).equals(body)).toBe(true);
  expect(decodeRecord(encodeRecord({ ...keptRecord, body: null }))).toEqual({ ...keptRecord, body: null });
});

test("indexedDbStorage says where there is no IndexedDB", () => {
  expect(() => indexedDbStorage()).toThrow(
    new TypeError("This platform has no IndexedDB: use another storage"),
  );
});

/** In the form of sessionStorage. */
function tabStorage(): WebStorage {
  const items = new Map<string, string>();
  return {
    get length() {
      return items.size;
    },
    getItem: (name) => items.get(name) ?? null,
    key: (index) => [...items.keys()][index] ?? null,
    removeItem: (name) => void items.delete(name),
    setItem: (name, value) => void items.set(name, value),
  };
}
