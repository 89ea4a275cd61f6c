/** A service in memory around the adapter. Its COMMITs can be paused, and cases can read what it has written. */
import assert from "node:assert/strict";
import { createLatchkey, type LatchkeyEvent, type Store, systemPorts } from "latchkey";
import { pause, type TransactionSupport } from "latchkey/internal";
import { type MemoryTransaction, memoryStore } from "latchkey/memory";
import type {
  BrokerCapabilities,
  BrokerContext,
  BrokerUnderTest,
  ConsumerUnderTest,
  Running,
  Work,
} from "./case.ts";

const { clock } = systemPorts;
const lookAgainMs = 10;

export interface Arranged {
  readonly context: BrokerContext;
  /** Whether it was started and not yet released. */
  release(): void;
}

export function arrange(
  broker: BrokerUnderTest,
  capabilities: BrokerCapabilities,
  patienceMs: number,
): Arranged {
  const memory = memoryStore();
  const gates = new Gates();
  const events: LatchkeyEvent[] = [];
  const latchkey = createLatchkey<MemoryTransaction>({
    store: gates.around(memory),
    onEvent: (event) => events.push(event),
  });
  const operation = latchkey.operation("broker.case");
  const { until, within } = patience(patienceMs);
  const context: BrokerContext = {
    broker,
    capabilities,
    events,
    until,
    within,
    pause: (ms) => pause(clock, ms),
    hold: (where) => gates.next(where),
    rows: () =>
      memory
        .rows("rows")
        .map(({ name }) => String(name))
        .sort(),
    async dead() {
      const everything = { operation: null, tenant: null, limit: 1_000, after: null };
      return ((await memory.messages?.list(everything)) ?? []).map(({ reason }) => reason).sort();
    },
    publish: (...names) => broker.publish(names.map(messageOf)),
    async consume(work, options = {}) {
      const settings = { tenant: "tenant", size: 4, backoffMs: 100, failuresMax: 3, holdMs: 60_000 };
      const started = await broker.consume(
        latchkey,
        operation,
        { ...settings, ...options },
        async ({ tx, input, message }) => {
          await work({ name: input.name, message } satisfies Work);
          await tx.insert("rows", { name: input.name });
        },
      );
      return runningOf(started);
    },
  };
  return { context, release: () => gates.release() };
}

function messageOf(name: string) {
  return { id: name, body: Buffer.from(JSON.stringify({ name })), contentType: "application/json" };
}

function runningOf(started: ConsumerUnderTest): Running {
  const { consumer } = started;
  const can = (what: "die" | "cut") => {
    assert.ok(started[what], `a consumer must have ${what}, as declared`);
    return started[what]();
  };
  return {
    counts: () => consumer.counts(),
    stop: () => consumer.stop(),
    die: async () => can("die"),
    cut: async () => can("cut"),
  };
}

function patience(patienceMs: number): Pick<BrokerContext, "until" | "within"> {
  return {
    async until(what, condition) {
      const deadline = clock.monotonicMs() + patienceMs;
      while (!(await condition())) {
        assert.ok(clock.monotonicMs() < deadline, `not within ${patienceMs} ms: ${what}`);
        await pause(clock, lookAgainMs);
      }
    },
    async within<T>(what: string, promise: Promise<T>) {
      const given = new AbortController();
      const late = pause(clock, patienceMs, given.signal).then(() => {
        assert.ok(given.signal.aborted, `not within ${patienceMs} ms: ${what}`);
      });
      try {
        return (await Promise.race([promise, late.then(() => promise)])) as T;
      } finally {
        given.abort();
      }
    },
  };
}

type Where = Parameters<BrokerContext["hold"]>[0];

/** Pauses one transaction at its COMMIT. */
class Gates {
  readonly #waiting = new Map<Where, { reached: () => void; open: Promise<void> }>();
  readonly #opened: (() => void)[] = [];

  next(where: Where) {
    const reached = Promise.withResolvers<void>();
    const open = Promise.withResolvers<void>();
    this.#waiting.set(where, { reached: reached.resolve, open: open.promise });
    this.#opened.push(open.resolve);
    return { reached: reached.promise, release: open.resolve };
  }

  release(): void {
    for (const open of this.#opened) open();
  }

  around(store: Store<MemoryTransaction>): Store<MemoryTransaction> {
    const { transactions } = store;
    assert.ok(transactions, "the memory store must have transactions");
    return { ...store, transactions: this.#around(transactions) };
  }

  #around(inner: TransactionSupport<MemoryTransaction>): TransactionSupport<MemoryTransaction> {
    return {
      ...inner,
      run: async (request, work) => {
        const outcome = await inner.run(request, async (open) => {
          const done = await work(open);
          if (done.end === "commit") await this.#pass("before COMMIT");
          return done;
        });
        if (outcome.kind === "committed") await this.#pass("after COMMIT");
        return outcome;
      },
    };
  }

  async #pass(where: Where): Promise<void> {
    const gate = this.#waiting.get(where);
    this.#waiting.delete(where);
    gate?.reached();
    await gate?.open;
  }
}
