import type { IntentRecord } from "../intent.ts";
import { platform } from "../ports.ts";
import type { IntentStorage } from "../storage.ts";
import type { IdbDatabase, IdbFactory, IdbObjects } from "./idb.ts";

const table = "intents";

/**
 * Stores intents in IndexedDB: they survive reloads and crashes, and are shared by the tabs and workers of an origin.
 *
 * @param name of the database. Default `latchkey`
 * @throws {TypeError} if the platform has no IndexedDB
 */
export function indexedDbStorage(name = "latchkey", factory = platform.indexedDB): IntentStorage {
  if (factory === undefined) throw new TypeError("This platform has no IndexedDB: use another storage");
  let opened: Promise<IdbDatabase> | undefined;
  const forget = () => {
    opened = undefined;
  };
  const transact = async (mode: "readonly" | "readwrite", work: (objects: IdbObjects) => void) => {
    try {
      opened ??= open(factory, name, forget);
      await complete(await opened, mode, work);
    } catch (error) {
      // Browsers lose connections without notice: the next call opens another.
      forget();
      throw error;
    }
  };
  return {
    async update(intent, change) {
      await transact("readwrite", (objects) => {
        const reading = objects.get(intent);
        reading.onsuccess = () => {
          const next = change(reading.result);
          if (next === reading.result) return;
          if (next === undefined) objects.delete(intent);
          else objects.put(next, intent);
        };
      });
    },
    async list() {
      let read = (): readonly (readonly [string, IntentRecord])[] => [];
      await transact("readonly", (objects) => {
        // In one transaction both are ordered by name.
        const [names, records] = [objects.getAllKeys(), objects.getAll()];
        read = () => records.result.map((record, index) => [String(names.result[index]), record]);
      });
      return read();
    },
  };
}

function open(factory: IdbFactory, name: string, forget: () => void): Promise<IdbDatabase> {
  return new Promise((resolve, reject) => {
    const opening = factory.open(name, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(table);
    opening.onerror = () => reject(opening.error);
    opening.onsuccess = () => {
      const database = opening.result;
      // Another tab deletes the database, or the browser has closed it: the next call opens it again.
      database.onversionchange = () => {
        forget();
        database.close();
      };
      database.onclose = forget;
      resolve(database);
    };
  });
}

/**
 * Resolves when the transaction is on disk. With `relaxed`, Chromium's default, a power cut could lose a key that was sent.
 */
function complete(
  database: IdbDatabase,
  mode: "readonly" | "readwrite",
  work: (objects: IdbObjects) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const transaction = database.transaction(table, mode, { durability: "strict" });
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(transaction.error);
    work(transaction.objectStore(table));
  });
}
