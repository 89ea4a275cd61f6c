/**
 * The contract of a client's storage, in a form that also runs in a browser: it uses no test library, and throws if something
 * is wrong.
 */
import type { IntentRecord } from "../../packages/latchkey-client/src/intent.ts";
import type { IntentStorage } from "../../packages/latchkey-client/src/storage.ts";

export const keptRecord: IntentRecord = {
  version: 1,
  key: "kept-key",
  digest: "0123456789abcdef",
  method: "POST",
  url: "https://shop.example/orders",
  type: "application/json",
  body: new Uint8Array([123, 125]),
  isKept: true,
  startedAt: 1_700_000_000_000,
  doneAt: null,
};

/**
 * Leaves the record `kept` behind.
 *
 * @param writers how many updates of one name are begun at once
 */
export async function checkStorage(storage: IntentStorage, writers = 10): Promise<void> {
  await storage.update("kept", () => keptRecord);
  await sees(storage, "kept", keptRecord);
  await sees(storage, "absent", undefined);

  let calls = 0;
  await storage.update("kept", (stored) => {
    calls += 1;
    return stored;
  });
  if (calls < 1) throw new Error("update resolved without having called change");

  await storage.update("freed", () => keptRecord);
  await storage.update("freed", () => undefined);
  await sees(storage, "freed", undefined);

  await storage.update("counted", () => ({ ...keptRecord, startedAt: 0 }));
  const one = () =>
    storage.update("counted", (stored) => stored && { ...stored, startedAt: stored.startedAt + 1 });
  await Promise.all(Array.from({ length: writers }, one));
  await sees(storage, "counted", { ...keptRecord, startedAt: writers });

  await storage.update("kept:with:colons and spaces", () => ({ ...keptRecord, key: "other" }));
  const listed = (await storage.list()).map(([name, { key }]) => `${name} ${key}`).sort();
  const expected = ["counted kept-key", "kept kept-key", "kept:with:colons and spaces other"];
  if (JSON.stringify(listed) !== JSON.stringify(expected)) throw new Error(`list has ${listed.join(", ")}`);
  for (const name of ["counted", "kept:with:colons and spaces"]) await storage.update(name, () => undefined);
}

async function sees(storage: IntentStorage, name: string, expected: IntentRecord | undefined): Promise<void> {
  let stored: IntentRecord | undefined = { ...keptRecord, key: "never read" };
  await storage.update(name, (found) => {
    stored = found;
    return found;
  });
  const sorted = (value: object | undefined) => JSON.stringify(Object.entries(value ?? {}).sort());
  if (sorted(stored) !== sorted(expected)) {
    throw new Error(`${name} is ${JSON.stringify(stored)}, not ${JSON.stringify(expected)}`);
  }
}
