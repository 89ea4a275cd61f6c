/** Adds what the one session of PGlite lacks for `transaction` execution: exclusive keys, and the idle limit. */
import type { RecordKey } from "../../engine/record.ts";
import { LatchkeyError, StoreError } from "../../errors.ts";
import type { Clock } from "../../ports.ts";
import type { Reading } from "../life.ts";
import type { Store } from "../store.ts";
import type {
  DeliveryOutcome,
  DeliveryRequest,
  DeliveryWork,
  OpenPhase,
  OpenTransaction,
  PhaseOutcome,
  PhaseRequest,
  PhaseWork,
  TransactionOutcome,
  TransactionRequest,
  TransactionSupport,
  TransactionWork,
} from "../transactions.ts";
import type { OwnKey, RunningKeys } from "./running-keys.ts";

export interface SessionParts<Tx> {
  readonly inner: TransactionSupport<Tx>;
  readonly read: (key: RecordKey) => Promise<Reading>;
  readonly keys: RunningKeys;
  readonly schema: string;
  readonly clock: Clock;
}

type Work<Tx, T> = (open: OpenTransaction<Tx>) => Promise<TransactionWork<T>>;

function sessionTransactions<Tx>(parts: SessionParts<Tx>): TransactionSupport<Tx> {
  const { inner, keys, schema, clock } = parts;
  return {
    async run(request, work) {
      for (;;) {
        const running = keys.find(schema, request.key);
        // Marked before it is opened, so that a duplicate never queues behind it.
        if (running === null) return alone(parts, request, work, keys.start(schema, request.key, clock));
        const reading = await running.reading();
        if (reading !== null) return beside(reading, work);
      }
    },

    phase: (request, work) => phase(parts, request, work),

    deliver: (request, work) => deliver(parts, request, work),

    async resolve(key, id, fence, timeoutMs) {
      const deadline = clock.monotonicMs() + timeoutMs;
      if (!(await isFree(parts, key, timeoutMs))) return "in_doubt";
      const leftMs = Math.max(1, deadline - clock.monotonicMs());
      return inner.resolve(key, id, fence, leftMs);
    },
  };
}

async function isFree<Tx>(
  { keys, schema, clock }: SessionParts<Tx>,
  key: RecordKey,
  timeoutMs: number,
): Promise<boolean> {
  const running = keys.find(schema, key);
  if (running === null) return true;
  const timeout = Promise.withResolvers<false>();
  const cancel = clock.startTimer(timeoutMs, () => timeout.resolve(false));
  const free = await Promise.race([running.ended.then(() => true), timeout.promise]);
  cancel();
  return free;
}

/**
 * A duplicate has no transaction, because there is no second session to open one on. It gets the reading of the running one,
 * and can neither write nor commit.
 */
async function beside<Tx, T>(reading: Reading, work: Work<Tx, T>): Promise<TransactionOutcome<T>> {
  const { end, value } = await work({
    reading,
    exclusive: false,
    tx: refusing<Tx>(),
    used: () => false,
    revoke: () => {},
  });
  return end === "commit" ? { kind: "lost", value } : { kind: "rolled_back", value };
}

/** A `tx` of whatever type, each of whose methods throws. */
function refusing<Tx>(): Tx {
  const refuse = () => {
    const message = "The key is running in another transaction, so this one has no session";
    throw new LatchkeyError("tx-revoked", { message });
  };
  const get = (_: object, property: string | symbol) => (property === "then" ? undefined : refuse);
  return new Proxy({}, { get }) as Tx;
}

async function alone<Tx, T>(
  { inner, clock }: SessionParts<Tx>,
  request: TransactionRequest,
  work: Work<Tx, T>,
  own: OwnKey,
): Promise<TransactionOutcome<T>> {
  const idle = new IdleLimit(clock, request.idleLimitMs);
  const started: { working?: Promise<TransactionWork<T>> } = {};
  try {
    return await inner.run(request, (open) => {
      own.looked(open.reading);
      started.working = work({ ...open, tx: idle.watch(open.tx) });
      return idle.limit(started.working);
    });
  } catch (error) {
    if (error !== idle.error || started.working === undefined) throw error;
    own.end();
    return idle.outcomeOf(await started.working);
  } finally {
    own.end();
  }
}

/** While the phase runs, others read its record as it was just before the phase. */
async function phase<Tx, T>(
  { inner, read, keys, schema, clock }: SessionParts<Tx>,
  request: PhaseRequest,
  work: (open: OpenPhase<Tx>) => Promise<PhaseWork<T>>,
): Promise<PhaseOutcome<T>> {
  const { key } = request.owner;
  const own = keys.find(schema, key) === null ? keys.start(schema, key, clock) : null;
  const idle = new IdleLimit(clock, request.idleLimitMs);
  const started: { working?: Promise<PhaseWork<T>> } = {};
  try {
    own?.looked(await read(key));
    return await inner.phase(request, (open) => {
      started.working = work({ ...open, tx: idle.watch(open.tx) });
      return idle.limit(started.working);
    });
  } catch (error) {
    if (error !== idle.error || started.working === undefined) throw error;
    own?.end();
    return idle.outcomeOf(await started.working);
  } finally {
    own?.end();
  }
}

async function deliver<Tx, T>(
  { inner, clock }: SessionParts<Tx>,
  request: DeliveryRequest,
  work: (open: OpenPhase<Tx>) => Promise<DeliveryWork<T>>,
): Promise<DeliveryOutcome<T>> {
  const idle = new IdleLimit(clock, request.idleLimitMs);
  const started: { working?: Promise<DeliveryWork<T>> } = {};
  try {
    return await inner.deliver(request, (open) => {
      started.working = work({ ...open, tx: idle.watch(open.tx) });
      return idle.limit(started.working);
    });
  } catch (error) {
    if (error !== idle.error || started.working === undefined) throw error;
    return idle.outcomeOf(await started.working);
  }
}

type RolledBack<T> = Extract<TransactionOutcome<T>, { readonly kind: "rolled_back" | "refused" }>;

/**
 * PGlite's own time-out must never fire, because it puts the process into an endless loop. This one ends the transaction by
 * an exception; like the server's, it restarts with every use of `tx`.
 */
class IdleLimit {
  readonly error = new StoreError("rolled_back", { message: "The transaction was idle for too long" });
  readonly #clock: Clock;
  readonly #limitMs: number;
  readonly #over = Promise.withResolvers<never>();
  #cancel = () => {};

  constructor(clock: Clock, limitMs: number) {
    this.#clock = clock;
    this.#limitMs = limitMs;
  }

  /** A proxy of `tx` that restarts the limit at every use. */
  watch<Tx>(tx: Tx): Tx {
    this.#restart();
    if (typeof tx !== "object" || tx === null) return tx;
    const watched: Tx & object = new Proxy(tx, {
      get: (target, property) => {
        this.#restart();
        const value: unknown = Reflect.get(target, property, target);
        return typeof value === "function" && property !== "constructor" ? on(target, value) : value;
      },
    });
    // Private fields of a class, such as Kysely's, exist only on the object itself.
    const on = (target: object, method: object) =>
      new Proxy(method as () => unknown, {
        apply: (call, self, args) => Reflect.apply(call, self === watched ? target : self, args),
      });
    return watched;
  }

  /** @throws {StoreError} this limit's `error` */
  async limit<T>(working: Promise<T>): Promise<T> {
    try {
      return await Promise.race([working, this.#over.promise]);
    } finally {
      this.#cancel();
      this.#restart = () => {};
    }
  }

  outcomeOf<T>({ end, value }: TransactionWork<T> | PhaseWork<T> | DeliveryWork<T>): RolledBack<T> {
    if (end !== "commit") return { kind: "rolled_back", value };
    return { kind: "refused", value, because: "other", error: this.error };
  }

  #restart = (): void => {
    this.#cancel();
    this.#cancel = this.#clock.startTimer(this.#limitMs, () => this.#over.reject(this.error));
  };
}

/** Adapts the Postgres store to the one session of PGlite: reads of a running key are answered from memory. */
export function besideSession<Tx>(
  store: Store<Tx>,
  { keys, schema, clock }: { readonly keys: RunningKeys; readonly schema: string; readonly clock: Clock },
): Store<Tx> {
  const { transactions: inner } = store;
  return {
    ...store,
    transactions:
      inner === null ? null : sessionTransactions({ inner, read: store.read, keys, schema, clock }),
    async read(key: RecordKey) {
      return (await keys.find(schema, key)?.reading()) ?? store.read(key);
    },
  };
}
