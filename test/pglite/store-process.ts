/**
 * A service on an embedded database, in a process of its own that tests may kill. Arguments: the folder. Lines in:
 * `{ pay: key }`, `{ hang: key }` (stays inside the handler), `{ close: true }`, `{ exit: true }` (without closing).
 */
import { createInterface } from "node:readline";
import { PGlite } from "@electric-sql/pglite";
import { createLatchkey, isLatchkeyError } from "latchkey";
import { openPglite } from "latchkey/pglite";
import { payments } from "./payments.ts";

function say(line: Readonly<Record<string, unknown>>): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

const [dataDir = ""] = process.argv.slice(2);
const opened = await openPglite(PGlite, { dataDir }).catch((error: unknown) => {
  say({ refused: isLatchkeyError(error) ? error.code : String(error) });
  return process.exit();
});
const { store, database, close } = opened;
const { pay } = await payments(createLatchkey({ store }), database);
say({ ready: true });

for await (const text of createInterface({ input: process.stdin })) {
  const line = JSON.parse(text) as { pay?: string; hang?: string; close?: true; exit?: true };
  if (line.pay !== undefined) say({ paid: await pay(line.pay) });
  if (line.hang !== undefined) {
    void pay(line.hang, () => {
      say({ inside: true });
      return new Promise(() => {});
    });
  }
  if (line.exit) process.exit();
  if (line.close) {
    await close();
    break;
  }
}
process.stdin.unref();
