/**
 * A process that delivers from the outbox. Its argument is JSON (`DispatcherSettings`); a line on stdin releases what stands
 * at its stop; what happens goes to stdout, one line of JSON each. SIGTERM stops it gracefully.
 */
import { createInterface } from "node:readline";
import pg from "pg";
import { createLatchkey, effectDispatcher, type Store } from "../../packages/latchkey/src/index.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { defineEffects, type EffectPlan } from "./outbox-work.ts";

/** Where a dispatcher stops. `after-claim`: its claims are written, and it has not seen them. */
export type StopPoint =
  | "after-claim"
  | "before-send"
  | "after-send"
  | "in-on-delivered"
  | "after-commit"
  | "after-end";

export interface DispatcherSettings {
  readonly databaseUrl: string;
  readonly receiverUrl: string;
  readonly plans: readonly EffectPlan[];
  readonly intervalMs: number;
  readonly batchSize: number;
  /** Default null: nowhere. */
  readonly stopAt?: StopPoint | null;
}

const settings = JSON.parse(process.argv[2] ?? "") as DispatcherSettings;
const { databaseUrl, receiverUrl, plans, intervalMs, batchSize, stopAt = null } = settings;
const tell = (line: Readonly<Record<string, unknown>>) => process.stdout.write(`${JSON.stringify(line)}\n`);
const pool = new pg.Pool({ connectionString: databaseUrl, max: 16 });
pool.on("error", () => {});
const released = Promise.withResolvers<void>();
// It also keeps the process alive while there is no connection: Latchkey's timers do not.
createInterface({ input: process.stdin }).on("line", () => released.resolve());

/** Its line counts how many have come to this point. */
async function at(point: StopPoint, count = 1): Promise<void> {
  if (point !== stopAt) return;
  tell({ stopped: point, count });
  await released.promise;
}

function stopping<Tx>(inner: Store<Tx>): Store<Tx> {
  const { outbox, transactions } = inner;
  if (outbox === null || transactions === null) throw new TypeError("the store has an outbox");
  return {
    ...inner,
    outbox: {
      ...outbox,
      async claim(...want) {
        const claimed = await outbox.claim(...want);
        if (claimed.length > 0) await at("after-claim", claimed.length);
        return claimed;
      },
      async end(ends) {
        const held = await outbox.end(ends);
        await at("after-end", ends.length);
        return held;
      },
    },
    transactions: {
      ...transactions,
      async deliver(request, work) {
        const outcome = await transactions.deliver(request, work);
        await at("after-commit");
        return outcome;
      },
    },
  };
}

const store = postgresStore({ pool });
const latchkey = createLatchkey({
  store: stopping(store),
  onEvent: (event) => {
    const { type } = event;
    if (type === "effect_dead" || type === "effect_retried") {
      const { effect, effectId, errorCode } = event;
      tell({ event: type, effect, effectId, errorCode, error: String(event.error) });
    } else if (type === "service_error") tell({ event: type, error: String(event.error) });
    else if (type === "effects_rescued") tell({ event: type, started: event.started });
  },
});
defineEffects(latchkey, plans, { receiverUrl, at: (point) => at(point) });
const dispatcher = effectDispatcher(latchkey, { intervalMs, batchSize });

process.once("SIGTERM", async () => {
  await dispatcher.stop();
  await store.close();
  await pool.end();
  process.exit();
});
// No send is to be late for the loading of what the first one needs.
await fetch(`${receiverUrl}/found?reference=none`).then((response) => response.arrayBuffer());
// It may start while the database is down.
await pool.query("select 1").catch(() => {});
dispatcher.start();
tell({ ready: true });
