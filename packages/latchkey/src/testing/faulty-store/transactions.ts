/** Faults of transactions and phases: the connection can be lost while one opens, while it is open, and when it ends. */
import type { RecordKey } from "../../engine/record.ts";
import type {
  Admission,
  BatchOutcome,
  BatchRequest,
  BatchWork,
  DeliveryOutcome,
  DeliveryRequest,
  DeliveryWork,
  OpenBatch,
  OpenPhase,
  OpenTransaction,
  OptimisticTransaction,
  PhaseOutcome,
  PhaseRequest,
  PhaseWork,
  TransactionOutcome,
  TransactionRequest,
  TransactionSupport,
  TransactionWork,
} from "../../stores/transactions.ts";
import { wrapped } from "../../stores/wrapped.ts";
import { type FaultOutcome, proceeds, type StorePort } from "./fault.ts";
import { OptimisticOpening } from "./optimistic-opening.ts";
import { type FaultyProcess, failureOf } from "./process.ts";

type End = "commit" | "rollback" | "abandon";

const transactionPorts = {
  open: "open",
  commit: "commit",
  rollback: "rollback",
  abandon: "abandon",
} as const satisfies Ports;

const phasePorts = {
  open: "openPhase",
  commit: "commitPhase",
  rollback: "rollbackPhase",
  abandon: "abandonPhase",
} as const satisfies Ports;

const deliveryPorts = {
  open: "openDelivery",
  commit: "commitDelivery",
  rollback: "rollbackDelivery",
  abandon: "abandonDelivery",
} as const satisfies Ports;

const batchPorts = {
  open: "openBatch",
  commit: "commitBatch",
  rollback: "rollbackBatch",
  abandon: "abandonBatch",
} as const satisfies Ports;

type Ports = Readonly<Record<"open" | End, StorePort>>;

const lost = { end: "abandon", value: null } as const;

/** The outcome for a caller that did not get the store's reply. */
type WithoutReply<T> = Extract<
  TransactionOutcome<T>,
  { readonly kind: "rolled_back" | "refused" | "in_doubt" }
>;

/** A transaction, a batch, a phase or a delivery. `begin` runs it on the store and returns a function from the value to the outcome that carries it. */
interface Subject<Open, Work, Outcome, T> {
  /** Null for a delivery, which has an effect and no key, and for a batch, which has several. */
  readonly key: RecordKey | null;
  readonly ports: Ports;
  /** Whether the work itself opens it, at its first use. */
  readonly optimistic?: true;
  readonly work: (open: Open) => Promise<Work>;
  begin(inside: (open: Open) => Promise<Work | typeof lost>): Promise<(value: T) => Outcome>;
}

export function faultyTransactions<Tx>(
  inner: TransactionSupport<Tx>,
  process: FaultyProcess,
): TransactionSupport<Tx> {
  return wrapped<TransactionSupport<Tx>>({
    runOptimistic: inner.runOptimistic && faultyOptimistic(inner.runOptimistic, process),
    runBatch: inner.runBatch && faultyBatches(inner.runBatch, process),
    deliver: <T>(
      request: DeliveryRequest,
      work: (open: OpenPhase<Tx>) => Promise<DeliveryWork<T>>,
    ): Promise<DeliveryOutcome<T>> =>
      new FaultyTransaction(process, {
        key: null,
        ports: deliveryPorts,
        work,
        async begin(inside) {
          const outcome = await inner.deliver<T | null>(request, inside);
          return (value: T) => ({ ...outcome, value });
        },
      }).run(),
    phase: <T>(
      request: PhaseRequest,
      work: (open: OpenPhase<Tx>) => Promise<PhaseWork<T>>,
    ): Promise<PhaseOutcome<T>> =>
      new FaultyTransaction(process, {
        key: request.owner.key,
        ports: phasePorts,
        work,
        async begin(inside) {
          const outcome = await inner.phase<T | null>(request, inside);
          return (value: T) => ({ ...outcome, value });
        },
      }).run(),
    run: <T>(
      request: TransactionRequest,
      work: (open: OpenTransaction<Tx>) => Promise<TransactionWork<T>>,
    ): Promise<TransactionOutcome<T>> =>
      new FaultyTransaction(process, {
        key: request.key,
        ports: transactionPorts,
        work,
        async begin(inside) {
          const outcome = await inner.run<T | null>(request, inside);
          return (value: T) => ({ ...outcome, value });
        },
      }).run(),
    resolve: (key, id, fence, timeoutMs) =>
      process.call("resolve", key, () => inner.resolve(key, id, fence, timeoutMs)),
  });
}

type RunOptimistic<Tx> = NonNullable<TransactionSupport<Tx>["runOptimistic"]>;

function faultyOptimistic<Tx>(runOptimistic: RunOptimistic<Tx>, process: FaultyProcess): RunOptimistic<Tx> {
  return <T>(
    request: TransactionRequest,
    admit: (seen: Admission) => Promise<boolean>,
    work: (open: OptimisticTransaction<Tx>) => Promise<TransactionWork<T>>,
  ): Promise<TransactionOutcome<T>> =>
    new FaultyTransaction(process, {
      key: request.key,
      ports: transactionPorts,
      optimistic: true,
      work: (open: OptimisticTransaction<Tx>) => work(new OptimisticOpening(process, request.key, open).open),
      async begin(inside) {
        const outcome = await runOptimistic<T | null>(request, admit, inside);
        return (value: T) => ({ ...outcome, value });
      },
    }).run();
}

type RunBatch<Tx> = NonNullable<TransactionSupport<Tx>["runBatch"]>;

function faultyBatches<Tx>(runBatch: RunBatch<Tx>, process: FaultyProcess): RunBatch<Tx> {
  return <T>(
    request: BatchRequest,
    work: (open: OpenBatch<Tx>) => Promise<BatchWork<T>>,
  ): Promise<BatchOutcome<T>> =>
    new FaultyTransaction(process, {
      key: null,
      ports: batchPorts,
      work,
      async begin(inside) {
        const outcome = await runBatch<T | null>(request, inside);
        return (value: T) => ({ ...outcome, value });
      },
    }).run();
}

/** How the work ended, for the store to write. */
interface Ending<T> {
  readonly end: End;
  readonly value: T;
  readonly planned: FaultOutcome;
}

class FaultyTransaction<Open, Work extends { readonly end: End; readonly value: T }, Outcome, T> {
  readonly #process: FaultyProcess;
  readonly #subject: Subject<Open, Work, Outcome, T>;
  readonly #result = Promise.withResolvers<Outcome | WithoutReply<T>>();
  /** Null as long as the work's end has not been passed to the store. */
  #ending: Ending<T> | null = null;

  constructor(process: FaultyProcess, subject: Subject<Open, Work, Outcome, T>) {
    this.#process = process;
    this.#subject = subject;
  }

  async run(): Promise<Outcome | WithoutReply<T>> {
    const { key, ports, optimistic } = this.#subject;
    const opening = optimistic === true ? proceeds : await this.#process.outcomeOf(ports.open, key);
    if (opening.effect === "none") {
      await this.#process.stopIfDead(opening);
      throw failureOf(ports.open, opening);
    }
    this.#subject
      .begin((open) => this.#inside(open, opening))
      .then((outcome) => this.#finish(outcome))
      .catch((error: unknown) => {
        if (!this.#process.isDead) this.#result.reject(error);
      });
    return this.#result.promise;
  }

  async #inside(open: Open, opening: FaultOutcome): Promise<Work | typeof lost> {
    if (opening.callerGets !== "reply") return this.#loseOpening(opening);
    if (!(await this.#process.replied(opening))) return lost;
    const ran = await this.#runWork(open);
    if (ran === null) return lost;
    const { key, ports } = this.#subject;
    const ending = {
      end: ran.end,
      value: ran.value,
      planned: await this.#process.outcomeOf(ports[ran.end], key),
    };
    if (ending.planned.effect !== "now") {
      if (ending.planned.callerGets === "nothing") this.#process.kill();
      else this.#result.resolve(this.#withoutReply(ending));
      if (ending.planned.effect === "none") return lost;
      await ending.planned.until;
    }
    this.#ending = ending;
    return ran;
  }

  /** The transaction is open, but the process never learns of it. `late`: the store needs that long to notice. */
  async #loseOpening(opening: FaultOutcome): Promise<typeof lost> {
    if (opening.callerGets === "nothing") this.#process.kill();
    else this.#result.reject(failureOf(this.#subject.ports.open, opening));
    await opening.until;
    return lost;
  }

  async #runWork(open: Open): Promise<Work | null> {
    try {
      const ran = await this.#process.outlives(this.#subject.work(open));
      return ran === null ? null : ran.value;
    } catch (error) {
      const { key, ports } = this.#subject;
      const planned = await this.#process.outcomeOf(ports.rollback, key);
      if (planned.callerGets === "nothing") this.#process.kill();
      else await this.#process.replied(planned);
      throw error;
    }
  }

  async #finish(outcome: (value: T) => Outcome): Promise<void> {
    const ending = this.#ending;
    if (ending === null) return;
    const { planned, value } = ending;
    if (planned.callerGets === "reply") await this.#process.replied(planned);
    await this.#process.stopIfDead(planned);
    this.#result.resolve(planned.callerGets === "reply" ? outcome(value) : this.#withoutReply(ending));
  }

  /** The outcome for a caller whose connection broke at the end. Only a COMMIT can be in doubt. */
  #withoutReply({ end, value, planned }: Ending<T>): WithoutReply<T> {
    if (end !== "commit") return { kind: "rolled_back", value };
    const error = failureOf(this.#subject.ports[end], planned);
    return planned.callerGets === "not_sent"
      ? { kind: "refused", value, because: "other", error }
      : { kind: "in_doubt", value, error };
  }
}
