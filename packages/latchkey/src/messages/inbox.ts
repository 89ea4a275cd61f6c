/**
 * The inbox: a message is an attempt of an operation, under the name that its sender gave it. Delivered twice it runs once,
 * and its acknowledgement waits for the COMMIT. What a verdict asks of a broker is in `broker.ts`.
 */
import type { HandlerContext, Result } from "../attempt/attempt.ts";
import type { Runtime } from "../attempt/runtime.ts";
import type { DirectExecution, Execution } from "../engine/classify.ts";
import type { RecordKey } from "../engine/record.ts";
import type { Latchkey } from "../latchkey.ts";
import type { Operation } from "../operation.ts";
import { type OwnedOperation, ownsItsWork } from "../owned-operation.ts";
import { pause } from "../ports.ts";
import type { MessageFacts, MessageTally } from "../stores/messages.ts";
import type { ConsumerCounts, Message, MessageDeath, Verdict } from "./broker.ts";
import { type InboxOptions, type InboxSettings, resolveInboxOptions } from "./inbox-options.ts";
import { type Outcome, outcomeOf, outcomeOfError } from "./outcome.ts";
import { type ReadMessage, readMessage } from "./read-message.ts";
import { Tallies } from "./tallies.ts";
import { Turns } from "./turns.ts";
import { VerdictCounts } from "./verdict-counts.ts";

export type { InboxOptions };

/** Runs one message. What it throws rolls everything back, and the message is tried again. */
export type MessageHandler<Tx, E extends DirectExecution, I> = (
  context: HandlerContext<Tx, E> & { readonly input: I; readonly message: Message },
) => Promise<void>;

export interface Inbox {
  /** Decides about one delivery; runs it unless it has run. Never rejects. */
  consume(message: Message): Promise<Verdict>;
  /** From now on what would be held is given back. Cannot be taken back. */
  close(): void;
  counts(): ConsumerCounts;
}

type Submit<I> = (message: Message, read: Extract<ReadMessage<I>, { kind: "readable" }>) => Promise<Result>;

/**
 * Makes an inbox for one operation. Adapters of brokers are built on it; for a broker without one, hand its messages to
 * `consume` and do what the verdict says.
 *
 * @param handler what a message runs; only for an operation that does not own its work
 * @throws {TypeError} when an option is missing or out of range, or the store keeps no messages.
 */
export function createInbox<Tx, E extends Execution, I>(
  latchkey: Latchkey<Tx>,
  operation: OwnedOperation<E, I>,
  options: InboxOptions<I>,
): Inbox;
export function createInbox<Tx, E extends DirectExecution, I = unknown>(
  latchkey: Latchkey<Tx>,
  operation: Operation<E>,
  options: InboxOptions<I>,
  handler: MessageHandler<Tx, E, I>,
): Inbox;
export function createInbox<Tx, E extends DirectExecution, I>(
  latchkey: Latchkey<Tx>,
  operation: Operation<E> | OwnedOperation<E, I>,
  options: InboxOptions<I>,
  handler?: MessageHandler<Tx, E, I>,
): Inbox {
  const settings = resolveInboxOptions(options);
  const { runtime } = latchkey;
  const { messages: support, name } = runtime.store;
  if (support === null) throw new TypeError(`Store ${name} keeps no messages, so there is no inbox on it`);
  const submit = submitter(latchkey, operation, handler);
  const tallies = new Tallies(runtime, support, settings.keepMs);
  return new MessageInbox(runtime, operation, settings, submit, tallies);
}

function submitter<Tx, E extends DirectExecution, I>(
  latchkey: Latchkey<Tx>,
  operation: Operation<E> | OwnedOperation<E, I>,
  handler: MessageHandler<Tx, E, I> | undefined,
): Submit<I> {
  if (latchkey.runtime.operations.get(operation.name) !== operation) {
    throw new TypeError(`Operation ${operation.name} was defined on another latchkey`);
  }
  if (operation.settings.onStoreFailure !== "refuse") {
    // A message that cannot be written down as done would run again, and again.
    throw new TypeError(`Operation ${operation.name} may run unprotected: messages can only be refused`);
  }
  if (ownsItsWork(operation)) {
    if (handler !== undefined)
      throw new TypeError(`Operation ${operation.name} owns its work: leave out the handler`);
    const owned = operation as OwnedOperation<E, I>;
    return (_, { submission, input }) => latchkey.executeOwned(owned, submission, input);
  }
  if (typeof handler !== "function") {
    throw new TypeError(`Operation ${operation.name} has no \`run\`: hand over a handler for its messages`);
  }
  return (message, { submission, input }) =>
    latchkey.execute(operation, submission, async (context) => {
      await handler({ ...context, input, message });
      return { status: 204, headers: [], body: new Uint8Array(), omitted: null };
    });
}

/** While a message is held: the first pause, which doubles up to the last. */
const holdStepMinMs = 50;
const holdStepMaxMs = 1_000;
/** Far longer than it takes to learn that a message is running elsewhere. */
const secondLookMs = 500;

/** What is known about a message from one try to the next. */
interface Watch {
  /** What it was suspected by. */
  suspected: MessageTally | null;
  /** Runs come back from whose return could not be written down: without it they would look like deaths. */
  owed: number;
}

class MessageInbox<Tx, I> implements Inbox {
  readonly #runtime: Runtime<Tx>;
  readonly #operation: Operation;
  readonly #settings: InboxSettings<I>;
  readonly #submit: Submit<I>;
  readonly #tallies: Tallies<Tx>;
  readonly #counts = new VerdictCounts();
  readonly #closing = new AbortController();
  /** What may have killed its process runs while nothing else does: then it is known what a death says. */
  readonly #turns = new Turns();

  constructor(
    runtime: Runtime<Tx>,
    operation: Operation,
    settings: InboxSettings<I>,
    submit: Submit<I>,
    tallies: Tallies<Tx>,
  ) {
    this.#runtime = runtime;
    this.#operation = operation;
    this.#settings = settings;
    this.#submit = submit;
    this.#tallies = tallies;
  }

  async consume(message: Message): Promise<Verdict> {
    this.#counts.received();
    const read = readMessage(this.#settings, this.#operation, this.#runtime.storedKey, message);
    const verdict = await this.#untilDecided(message, read);
    this.#counts.settled(verdict);
    if (verdict.settle === "give_back") {
      const { because, afterMs } = verdict;
      this.#runtime.emit({ ...this.#about(read.facts), type: "message_given_back", because, afterMs });
    }
    return verdict;
  }

  close(): void {
    this.#closing.abort();
  }

  counts(): ConsumerCounts {
    return this.#counts.now();
  }

  /** Nothing is held between two tries but the message. */
  async #untilDecided(message: Message, read: ReadMessage<I>): Promise<Verdict> {
    const { clock, random } = this.#runtime.ports;
    const { signal } = this.#closing;
    const deadline = clock.monotonicMs() + this.#settings.holdMs;
    const watch: Watch = { suspected: null, owed: 0 };
    for (let stepMs = holdStepMinMs; ; stepMs = Math.min(stepMs * 2, holdStepMaxMs)) {
      const outcome = await this.#try(message, read, watch);
      if (outcome.kind !== "busy") return outcome.verdict;
      // What is not paid now is, before the next judgement.
      await this.#pay(read.facts, watch).catch(() => {});
      const { because } = outcome;
      const pauseMs = Math.max(outcome.afterMs ?? 0, stepMs * (0.5 + random.fraction()));
      const leftMs = deadline - clock.monotonicMs();
      if (signal.aborted) return { settle: "give_back", because: "stopping", afterMs: 0 };
      if (pauseMs > leftMs) return { settle: "give_back", because, afterMs: Math.ceil(pauseMs) };
      await pause(clock, pauseMs, signal);
    }
  }

  /** What cannot be written down, too, is for a later try: until then the message stays unacknowledged. */
  async #try(message: Message, read: ReadMessage<I>, watch: Watch): Promise<Tried> {
    try {
      if (read.kind === "unreadable") return await this.#bury(message, read.facts, read.because, read.error);
      if (!message.redelivered) return await this.#turns.together(() => this.#run(message, read, null));
      await this.#pay(read.facts, watch);
      const tally = await this.#tallies.find(read.facts);
      switch (this.#judge(tally)) {
        case "dead":
          return decided({ settle: "dead", because: "dead-already" });
        case "killer":
          return await this.#killer(message, read, tally, watch);
        case "suspect":
          return await this.#turns.alone(() => this.#run(message, read, watch));
        default:
          return await this.#turns.together(() => this.#run(message, read, watch));
      }
    } catch (error) {
      this.#runtime.emit({ ...this.#about(read.facts), type: "store_error", error });
      return { kind: "busy", because: "store-unavailable", afterMs: null };
    }
  }

  /**
   * The first delivery is not counted, so that a message which goes through costs nothing. Of the deaths that are, the first
   * may have been a neighbour's doing.
   */
  #judge(tally: MessageTally | null): "innocent" | "suspect" | "killer" | "dead" {
    if (tally === null) return "innocent";
    if (tally.state === "dead") return "dead";
    const unreturned = tally.starts - tally.returns;
    if (unreturned >= this.#settings.killsMax) return "killer";
    return unreturned > 0 ? "suspect" : "innocent";
  }

  /**
   * One that has finished has killed nobody, nor has one that is running. Nor has one that others look at right now: for the
   * moment of their look they count as begun, so it is only believed of a tally that stays as it is.
   */
  async #killer(
    message: Message,
    read: Readable<I>,
    tally: MessageTally | null,
    watch: Watch,
  ): Promise<Tried> {
    const { suspected: before } = watch;
    watch.suspected = tally;
    const later: Tried = { kind: "busy", because: "in-progress", afterMs: secondLookMs };
    if (!isSame(before, tally)) return later;
    const key = this.#runtime.storedKey(read.submission.key);
    const { record } = await this.#runtime.guard(() => this.#runtime.store.read(key));
    if (record !== null) return this.#turns.alone(() => this.#run(message, read, watch));
    if (!(await this.#isFree(key))) return later;
    // Whoever freed the key since the first look has come back.
    if (!isSame(tally, await this.#tallies.find(read.facts))) return later;
    return this.#bury(message, read.facts, "kills-its-process", null);
  }

  /** Whether nobody runs the key and nothing is known of it: an attempt in a transaction shows no record until its COMMIT. */
  async #isFree(key: RecordKey): Promise<boolean> {
    const { store, guard } = this.#runtime;
    const { transactions } = store;
    const { execution, settings } = this.#operation;
    if (transactions === null || execution !== "transaction") return true;
    const idleLimitMs = settings.transactionLimitMs;
    const look = () =>
      transactions.run<boolean>(
        { key, isolation: null, idleLimitMs, savepoint: false },
        async ({ exclusive, reading }) => ({
          end: "rollback",
          value: exclusive && reading.record === null,
        }),
      );
    return (await guard(look)).value;
  }

  /** @param watch null: its start is not counted */
  async #run(message: Message, read: Readable<I>, watch: Watch | null): Promise<Tried> {
    const { facts } = read;
    if (watch !== null) await this.#tallies.start(facts);
    const outcome = await this.#submit(message, read).then(outcomeOf, outcomeOfError);
    if (watch !== null) watch.owed += 1;
    switch (outcome.kind) {
      case "done":
        if (watch !== null) await this.#forget(facts);
        return decided({ settle: "ack", because: outcome.because });
      case "busy":
        if (watch !== null) await this.#pay(facts, watch);
        return outcome;
      case "failed":
        return this.#failed(message, facts, watch, outcome);
      case "dead":
        return this.#bury(message, facts, outcome.because, outcome.error);
      default:
        return outcome satisfies never;
    }
  }

  async #failed(
    message: Message,
    facts: MessageFacts,
    watch: Watch | null,
    { because, errorCode, error }: Extract<Outcome, { kind: "failed" }>,
  ): Promise<Tried> {
    const { failures } = await this.#tallies.failed(facts, watch !== null, errorCode);
    if (watch !== null) watch.owed -= 1;
    this.#runtime.emit({ ...this.#about(facts), type: "message_failed", failures, errorCode, error });
    if (failures >= this.#settings.failuresMax) {
      return this.#bury(message, facts, because === "handler-failed" ? "failed" : because, error);
    }
    const { backoffMs, backoffMaxMs } = this.#settings;
    const jitter = 0.5 + this.#runtime.ports.random.fraction();
    const afterMs = Math.min(Math.ceil(backoffMs * 2 ** (failures - 1) * jitter), backoffMaxMs);
    return decided({ settle: "give_back", because, afterMs });
  }

  async #bury(message: Message, facts: MessageFacts, because: MessageDeath, error: unknown): Promise<Tried> {
    await this.#tallies.bury(facts, message, because);
    this.#runtime.emit({ ...this.#about(facts), type: "message_dead", because, error });
    return decided({ settle: "dead", because });
  }

  /** Writes down the returns that are owed. */
  async #pay(facts: MessageFacts, watch: Watch): Promise<void> {
    if (watch.owed === 0) return;
    await this.#tallies.returned(facts, watch.owed);
    watch.owed = 0;
  }

  /** It has gone through, whether this can be written down or not; the time of its tally runs out by itself. */
  async #forget(facts: MessageFacts): Promise<void> {
    await this.#tallies.forget(facts).catch((error: unknown) => {
      this.#runtime.emit({ ...this.#about(facts), type: "store_error", error });
    });
  }

  #about({ operation, source, tenant, key }: MessageFacts) {
    const place = { tenant: tenant ?? "", scope: operation, key: key ?? "" };
    return { ...this.#runtime.about(operation, place), source };
  }
}

type Readable<I> = Extract<ReadMessage<I>, { kind: "readable" }>;

type Tried =
  | Extract<Outcome, { readonly kind: "busy" }>
  | { readonly kind: "decided"; readonly verdict: Verdict };

function isSame(left: MessageTally | null, right: MessageTally | null): boolean {
  return left?.starts === right?.starts && left?.returns === right?.returns;
}

function decided(verdict: Verdict): Tried {
  return { kind: "decided", verdict };
}
