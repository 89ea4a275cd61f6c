/** Look-ups of one process that travel together. */
import type { RecordKey } from "../../../../packages/latchkey/src/engine/record.ts";
import { callScenario } from "../call-scenario.ts";
import { everyIsolation, faultKinds } from "../scenario.ts";

export const gatheredLookUps = callScenario({
  name: "gathered-look-ups",
  about:
    "four look-ups at once, of which two travel together for one key of two tenants, beside a process that begins a life of that key, and one more look-up once it has",
  isolations: everyIsolation,
  faults: faultKinds,
  async write(script) {
    const { key } = script;
    const elsewhere: RecordKey = { ...key, tenant: "u" };
    const written = Promise.withResolvers<void>();
    const reads = (name: string, of: RecordKey, after: Promise<void> = Promise.resolve()) =>
      script.actor(name, 0, async (call) => {
        await after;
        await call("read", ({ store }) => store.read(of));
      });
    script.watch(elsewhere);
    const life = script.life(2, elsewhere);
    await script.first("accept elsewhere", ({ store }) => store.accept(life, null, 60_000));
    for (const name of ["one", "two"]) reads(name, { ...key, scope: name });
    reads("three", key);
    reads("four", elsewhere);
    const own = script.life(1);
    script.actor("writer", 1, async (call) => {
      await call("accept", ({ store }) => store.accept(own, null, 60_000));
      written.resolve();
    });
    reads("last", key, written.promise);
  },
});
