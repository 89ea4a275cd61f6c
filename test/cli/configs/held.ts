/**
 * A worker that is sending one effect until the test says `finish`. Lines in: `start` (with HOLD_START its store does not
 * answer before), `finish`, `sick` (its store does not answer any more). With LEAVE_OPEN something stays open at the end.
 */
import { createInterface } from "node:readline";
import { createLatchkey, defineConfig, StoreError } from "latchkey";
import { memoryStore } from "latchkey/memory";
import { createMetrics } from "latchkey/metrics";

const say = (line: Readonly<Record<string, unknown>>) => console.log(JSON.stringify(line));
const started = new Map<unknown, PromiseWithResolvers<void>>(
  ["start", "finish", "sick"].map((name) => [name, Promise.withResolvers<void>()]),
);
const lines = createInterface({ input: process.stdin });
lines.on("line", (text) => started.get(JSON.parse(text))?.resolve());
const until = (name: string) => started.get(name)?.promise;

let sick = false;
void until("sick")?.then(() => {
  sick = true;
  say({ sick });
});

const memory = memoryStore();
const store: typeof memory = {
  ...memory,
  async readById(tenant, id) {
    if (sick) throw new StoreError("not_sent", { message: "secret host is down" });
    return memory.readById(tenant, id);
  },
  async verify() {
    if (process.env.HOLD_START) {
      say({ verifying: true });
      await until("start");
    }
    if (sick) throw new StoreError("not_sent", { message: "secret host is down" });
  },
};
const metrics = createMetrics();
const latchkey = createLatchkey({ store, onEvent: metrics.onEvent });
const mail = latchkey.effect("mail", {
  deduplication: "none",
  limits: { timeoutMs: 60_000 },
  execute: async () => {
    say({ sending: true });
    await until("finish");
    say({ finished: true });
    return null;
  },
});
const operation = latchkey.operation("orders.create");
await latchkey.run(operation, { tenant: "t", key: "k", input: null }, async ({ attempt }) => {
  attempt.enqueue(mail, {});
});

// biome-ignore lint/style/noDefaultExport: what the command loads
export default defineConfig({
  latchkey,
  ...(process.env.NO_METRICS ? {} : { metrics }),
  worker: { concurrency: 1, leaseRescuer: false },
  close() {
    say({ closed: true });
    lines.close();
    process.stdin.destroy();
    if (process.env.LEAVE_OPEN) setInterval(() => {}, 1_000);
  },
});
