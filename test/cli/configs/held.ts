/**
 * A worker whose work ends when the test says so. Lines in: `start`, `finish`, `sick`. With HOLD_START it does not start
 * before the first of them; with LEAVE_OPEN something stays open at the end.
 */
import { createInterface } from "node:readline";
import { createLatchkey } from "latchkey";
import { memoryStore } from "latchkey/memory";

const say = (line: Readonly<Record<string, unknown>>) => console.log(JSON.stringify(line));
const told = new Map<unknown, PromiseWithResolvers<void>>(
  ["start", "finish", "sick"].map((name) => [name, Promise.withResolvers<void>()]),
);
const lines = createInterface({ input: process.stdin });
lines.on("line", (text) => told.get(JSON.parse(text))?.resolve());
const until = (name: string) => told.get(name)?.promise;

let alive = true;
void until("sick")?.then(() => {
  alive = false;
  say({ sick: true });
});

const latchkey = {
  ...createLatchkey({ store: memoryStore() }),
  async startWorker(options?: object) {
    say({ starting: true, options });
    if (process.env.HOLD_START) await until("start");
    return {
      async stop() {
        await until("finish");
        say({ finished: true });
      },
      health: () => ({
        services: [
          { name: "effect-dispatcher", running: true, lastRoundAt: 0, lastError: new Error("secret"), alive },
        ],
      }),
    };
  },
};

// biome-ignore lint/style/noDefaultExport: what the command loads
export default {
  latchkey,
  worker: { intervalMs: 5 },
  close() {
    say({ closed: true });
    lines.close();
    process.stdin.destroy();
    if (process.env.LEAVE_OPEN) setInterval(() => {}, 1_000);
  },
};
