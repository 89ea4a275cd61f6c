/** What becomes of one message of an inbox: it is tried until it is decided about, held meanwhile, or given back. */

import type { RecordKey } from "../engine/record.ts";
import type { Runtime } from "../execution/runtime.ts";
import type { TransactionBatches } from "../execution/transaction/batches.ts";
import type { Result } from "../operations/attempt.ts";
import type { Operation } from "../operations/operation.ts";
import { pause } from "../ports.ts";
import type { MessageFacts, MessageTally } from "../stores/messages.ts";
import type { ConsumerCounts, Message, MessageDeath, Verdict } from "./broker.ts";
import { ExclusiveRunner } from "./exclusive-runner.ts";
import type { InboxSettings } from "./inbox-options.ts";
import { inMessageSpan } from "./message-span.ts";
import { busy, mayHaveHappened, type Outcome, outcomeOf, outcomeOfError } from "./outcome.ts";
import { type ReadMessage, readMessage } from "./read-message.ts";
import { rememberedMs } from "./remembered.ts";
import type { Tallies } from "./tallies.ts";
import { VerdictCounts } from "./verdict-counts.ts";

export interface Inbox {
  /** Decides about one delivery; runs it unless it has run. Never rejects. */
  consume(message: Message): Promise<Verdict>;
  /** From now on what would be held is given back. Cannot be taken back. */
  close(): void;
  counts(): ConsumerCounts;
}

/** @param batches whose transactions it shares; null: it has its own */
export type Submit<Tx, I> = (
  message: Message,
  read: Extract<ReadMessage<I>, { kind: "readable" }>,
  batches: TransactionBatches<Tx> | null,
) => Promise<Result>;

/** While a message is held: the first pause, which doubles up to the last. */
const holdStepMinMs = 50;
const holdStepMaxMs = 1_000;
/** Far longer than it takes to learn that a message is running elsewhere. */
const secondLookMs = 500;

/** What is known about a message from one try to the next. */
interface Watch {
  /** A first delivery is not counted, so that a message which goes through costs nothing more. */
  readonly counted: boolean;
  /** What it was suspected by. */
  suspected: MessageTally | null;
  /**
   * Returns that could not be written down: without them runs would look like deaths. Also one for a start in doubt; where
   * that was not written either, one death more is forgiven.
   */
  owed: number;
  /** It is not given back between the two looks that condemn it. */
  looksAgain: boolean;
  /** From then on what it asks for may have been committed; on the process's monotonic clock. */
  doubtedAtMs: number | null;
  /** What it is dead of. It does not run again. */
  burial: { readonly because: MessageDeath; readonly error: unknown } | null;
}

export class MessageInbox<Tx, I> implements Inbox {
  readonly #runtime: Runtime<Tx>;
  readonly #operation: Operation;
  readonly #settings: InboxSettings<I>;
  readonly #submit: Submit<Tx, I>;
  readonly #tallies: Tallies<Tx>;
  readonly #batches: TransactionBatches<Tx> | null;
  readonly #counts = new VerdictCounts();
  readonly #closing = new AbortController();
  /** What may have killed its process runs while nothing else does: then it is known what a death says. */
  readonly #turns = new ExclusiveRunner();

  constructor(
    runtime: Runtime<Tx>,
    operation: Operation,
    settings: InboxSettings<I>,
    submit: Submit<Tx, I>,
    tallies: Tallies<Tx>,
    batches: TransactionBatches<Tx> | null,
  ) {
    this.#runtime = runtime;
    this.#operation = operation;
    this.#settings = settings;
    this.#submit = submit;
    this.#tallies = tallies;
    this.#batches = batches;
  }

  async consume(message: Message): Promise<Verdict> {
    this.#counts.received();
    const read = readMessage(this.#settings, this.#operation, this.#runtime, message);
    const decide = () => this.#untilDecided(message, read);
    const verdict = await inMessageSpan(this.#runtime.tracing, this.#operation.name, message, decide);
    this.#counts.settled(verdict);
    if (verdict.settle === "give_back") {
      const { because, afterMs } = verdict;
      this.#runtime.emit({ ...this.#about(read.facts), type: "message_given_back", because, afterMs });
    }
    return verdict;
  }

  close(): void {
    this.#closing.abort();
    this.#batches?.close();
  }

  counts(): ConsumerCounts {
    return this.#counts.now();
  }

  /** Nothing is held between two tries but the message. */
  async #untilDecided(message: Message, read: ReadMessage<I>): Promise<Verdict> {
    const { clock, random } = this.#runtime.ports;
    const { signal } = this.#closing;
    const deadline = clock.monotonicMs() + this.#settings.holdMs;
    const watch: Watch = {
      counted: message.redelivered,
      suspected: null,
      looksAgain: false,
      owed: 0,
      doubtedAtMs: null,
      burial: null,
    };
    for (let stepMs = holdStepMinMs; ; stepMs = Math.min(stepMs * 2, holdStepMaxMs)) {
      const outcome = await this.#try(message, read, watch);
      if (outcome.kind !== "busy") return outcome.verdict;
      // What is not paid now is, before the next judgement.
      await this.#pay(read.facts, watch).catch(() => {});
      const { because } = outcome;
      const pauseMs = Math.max(outcome.afterMs ?? 0, stepMs * (0.5 + random.fraction()));
      const leftMs = deadline - clock.monotonicMs();
      if (signal.aborted) return stopping;
      // The next consumer would take an unwritten count for a death, and would begin to suspect the message anew.
      const mayLeave = watch.owed === 0 && !watch.looksAgain;
      if (mayLeave && pauseMs > leftMs) return { settle: "give_back", because, afterMs: Math.ceil(pauseMs) };
      await pause(clock, pauseMs, signal);
    }
  }

  /** What cannot be written down, too, is for a later try: until then the message stays unacknowledged. */
  async #try(message: Message, read: ReadMessage<I>, watch: Watch): Promise<Tried> {
    try {
      if (read.kind === "unreadable") return await this.#bury(message, read.facts, read.because, read.error);
      // Its death is decided, and could not be written down.
      const { burial } = watch;
      if (burial !== null) return await this.#bury(message, read.facts, burial.because, burial.error, watch);
      if (!watch.counted) return await this.#turns.together(() => this.#run(message, read, watch));
      await this.#pay(read.facts, watch);
      const tally = await this.#tallies.find(read.facts);
      switch (this.#judge(tally)) {
        case "dead":
          return decided({ settle: "dead", because: "dead-already" });
        case "spent":
          return await this.#bury(message, read.facts, "failed", null, watch);
        case "killer":
          return await this.#killer(message, read, tally, watch);
        case "suspect":
          return await this.#turns.alone(() => this.#run(message, read, watch));
        default:
          return await this.#turns.together(() => this.#run(message, read, watch));
      }
    } catch (error) {
      this.#runtime.emit({ ...this.#about(read.facts), type: "store_error", error });
      return busy("store-unavailable");
    }
  }

  /** Of the deaths that are counted, the first may have been a neighbour's doing. */
  #judge(tally: MessageTally | null): "innocent" | "suspect" | "killer" | "spent" | "dead" {
    if (tally === null) return "innocent";
    if (tally.state === "dead") return "dead";
    if (tally.failures >= this.#settings.failuresMax) return "spent";
    const unreturned = tally.starts - tally.returns;
    if (unreturned >= this.#settings.killsMax) return "killer";
    return unreturned > 0 ? "suspect" : "innocent";
  }

  /**
   * A message that has finished did not kill its process, nor has one that is running. Nor has one that others look at right now: for the
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
    watch.looksAgain = before === null;
    const later: Tried = { ...busy("in-progress"), afterMs: secondLookMs };
    if (!isSame(before, tally)) return later;
    const key = this.#runtime.storedKey(read.submission.key);
    const { record } = await this.#runtime.guard(() => this.#runtime.store.read(key));
    if (record !== null) return this.#turns.alone(() => this.#run(message, read, watch));
    if (!(await this.#isFree(key))) return later;
    // The consumer that freed the key since the first look has come back, and the tally is another.
    const isBuried = await this.#tallies.bury(read.facts, message, "kills-its-process", tally);
    return isBuried ? this.#buried(read.facts, "kills-its-process", null) : later;
  }

  /** Whether the key is not running and nothing is known of it: an attempt in a transaction shows no record until its COMMIT. */
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

  /** When its turn has come. */
  async #run(message: Message, read: Readable<I>, watch: Watch): Promise<Tried> {
    const { facts } = read;
    if (this.#closing.signal.aborted) return decided(stopping);
    if (this.#mayBeForgotten(watch)) return this.#bury(message, facts, "outcome-unknown", null);
    if (watch.counted && (await this.#start(facts, watch)) === "dead") return this.#deadAlready(facts, watch);
    const outcome = await this.#submitted(message, read, watch);
    if (watch.counted) watch.owed += 1;
    switch (outcome.kind) {
      case "done":
        if (watch.counted) await this.#forget(facts);
        return decided({ settle: "ack", because: outcome.because });
      case "busy":
        await this.#pay(facts, watch);
        return outcome;
      case "failed":
        return this.#failed(message, facts, watch, outcome);
      case "dead":
        return this.#bury(message, facts, outcome.because, outcome.error, watch);
      default:
        return outcome satisfies never;
    }
  }

  async #submitted(message: Message, read: Readable<I>, watch: Watch): Promise<Outcome> {
    const { clock } = this.#runtime.ports;
    const beganMs = clock.monotonicMs();
    // What comes again may have failed or killed its process: that would be its neighbours' affair, too.
    const batches = watch.counted ? null : this.#batches;
    const outcome = await this.#submit(message, read, batches).then(outcomeOf, outcomeOfError);
    if (outcome.kind === "busy" && outcome.mayHaveHappened) watch.doubtedAtMs ??= beganMs;
    return outcome;
  }

  /** It would run as new. That a try takes so long takes a long wait for its turn: `checkRemembered`. */
  #mayBeForgotten({ doubtedAtMs }: Watch): boolean {
    if (doubtedAtMs === null) return false;
    return this.#runtime.ports.clock.monotonicMs() - doubtedAtMs >= rememberedMs(this.#operation);
  }

  async #start(facts: MessageFacts, watch: Watch): Promise<MessageTally["state"]> {
    try {
      return (await this.#tallies.start(facts)).state;
    } catch (error) {
      if (mayHaveHappened(error)) watch.owed += 1;
      throw error;
    }
  }

  /** Others have condemned it since it was looked up. */
  async #deadAlready(facts: MessageFacts, watch: Watch): Promise<Tried> {
    watch.owed += 1;
    await this.#pay(facts, watch);
    return decided({ settle: "dead", because: "dead-already" });
  }

  async #failed(
    message: Message,
    facts: MessageFacts,
    watch: Watch,
    { because, errorCode, error }: Extract<Outcome, { kind: "failed" }>,
  ): Promise<Tried> {
    const { failures } = await this.#tallies.failed(facts, watch.counted, errorCode);
    if (watch.counted) watch.owed -= 1;
    this.#runtime.emit({ ...this.#about(facts), type: "message_failed", failures, errorCode, error });
    if (failures >= this.#settings.failuresMax) {
      return this.#bury(message, facts, because === "handler-failed" ? "failed" : because, error, watch);
    }
    const { backoffMs, backoffMaxMs } = this.#settings;
    const jitter = 0.5 + this.#runtime.ports.random.fraction();
    const afterMs = Math.min(Math.ceil(backoffMs * 2 ** (failures - 1) * jitter), backoffMaxMs);
    return decided({ settle: "give_back", because, afterMs });
  }

  /** @param watch where it is kept that nothing but this is left to do */
  async #bury(
    message: Message,
    facts: MessageFacts,
    because: MessageDeath,
    error: unknown,
    watch: Watch | null = null,
  ): Promise<Tried> {
    if (watch !== null) watch.burial = { because, error };
    await this.#tallies.bury(facts, message, because, null);
    return this.#buried(facts, because, error);
  }

  #buried(facts: MessageFacts, because: MessageDeath, error: unknown): Tried {
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

const stopping: Verdict = { settle: "give_back", because: "stopping", afterMs: 0 };

function decided(verdict: Verdict): Tried {
  return { kind: "decided", verdict };
}
