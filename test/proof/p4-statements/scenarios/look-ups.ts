/** Look-ups of one process that travel together. */
import type { RecordKey } from "../../../../packages/latchkey/src/engine/record.ts";
import { callScenario } from "../call-scenario.ts";
import { everyIsolation, faultKinds } from "../scenario.ts";

export const gatheredLookUps = callScenario({
  name: "gathered-look-ups",
  about:
    "two look-ups that travel together over the last free connection of a pool, for one key of two tenants, beside a process that begins a life of that key, and one more look-up once it has",
  isolations: everyIsolation,
  faults: faultKinds,
  async write(script) {
    const { key } = script;
    const elsewhere: RecordKey = { ...key, tenant: "u" };
    script.watch(elsewhere);
    const life = script.life(2, elsewhere);
    await script.first("accept elsewhere", ({ store }) => store.accept(life, null, 60_000));
    // With one connection there is one order in which the look-ups are answered, and every interleaving can be run.
    const { pool } = script.session(0);
    const clients = await Promise.all(Array.from({ length: pool.options.max ?? 0 }, () => pool.connect()));
    clients.pop()?.release();
    const written = Promise.withResolvers<void>();
    const looked: Promise<unknown>[] = [];
    const reads = (name: string, of: RecordKey, after: Promise<void> = Promise.resolve()) =>
      script.actor(name, 0, async (call) => {
        const look = after.then(() => call("read", ({ store }) => store.read(of)));
        looked.push(look);
        await look;
      });
    reads("one", key);
    reads("two", elsewhere);
    const own = script.life(1);
    script.actor("writer", 1, async (call) => {
      await call("accept", ({ store }) => store.accept(own, null, 60_000));
      written.resolve();
    });
    reads("last", key, written.promise);
    script.actor("pool", 0, async () => {
      await Promise.allSettled(looked);
      for (const client of clients) client.release();
    });
  },
});
