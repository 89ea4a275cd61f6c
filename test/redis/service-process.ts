/**
 * A service on a Redis store, in a process of its own. Arguments: the URL, the client. Lines in: `{ round, key, callers }`:
 * runs that many requests with the same key at once, and says how often the work was started and how the requests ended.
 */
import { createInterface } from "node:readline";
import { setImmediate as turn } from "node:timers/promises";
import { createLatchkey } from "latchkey";
import { redisStore } from "latchkey/redis";
import { clients } from "./clients.ts";

function say(line: Readonly<Record<string, unknown>>): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

const [url = "", name = ""] = process.argv.slice(2);
const open = clients[name];
if (open === undefined) throw new TypeError(`no client is named ${name}`);
const { client, close } = await open(url);
const store = redisStore({ client, onWarning() {} });
const latchkey = createLatchkey({ store });
const operation = latchkey.operation("mail.send", { execution: "lease" });
await store.verify();
say({ ready: true });

for await (const text of createInterface({ input: process.stdin })) {
  const { round, key, callers } = JSON.parse(text) as { round: number; key: string; callers: number };
  let starts = 0;
  const once = async () => {
    const result = await latchkey.run(operation, { tenant: "t", key, input: null }, async () => {
      starts += 1;
      await turn();
      return { by: process.pid };
    });
    return result.kind;
  };
  const kinds = await Promise.all(Array.from({ length: callers }, once));
  const counts: Record<string, number> = {};
  for (const kind of kinds) counts[kind] = (counts[kind] ?? 0) + 1;
  say({ round, starts, kinds: counts });
}
await close();
