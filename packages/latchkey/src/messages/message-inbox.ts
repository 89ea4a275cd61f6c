/** Takes one message of an inbox to its verdict: tries it until it is decided, holds it between tries, or gives it back. */

import type { RecordKey } from "../engine/record.ts";
import type { Runtime } from "../execution/runtime.ts";
import type { TransactionBatches } from "../execution/transaction/batches.ts";
import type { Result } from "../operations/attempt.ts";
import type { Operation } from "../operations/operation.ts";
import { pause } from "../ports.ts";
import type { MessageFacts, MessageTally } from "../stores/messages.ts";
import { type RetryPauses, retryPauseMs } from "../time/retry-pause.ts";
import type { ConsumerCounts, Message, MessageDeath, Verdict } from "./broker.ts";
import { ExclusiveRunner } from "./exclusive-runner.ts";
import type { InboxSettings } from "./inbox-options.ts";
import {
  busy,
  type MessageResult,
  mayHaveHappened,
  messageResultOf,
  messageResultOfError,
} from "./message-result.ts";
import { inMessageSpan } from "./message-span.ts";
import { type ReadMessage, readMessage } from "./read-message.ts";
import { rememberedMs } from "./remembered.ts";
import type { Tallies } from "./tallies.ts";
import { VerdictCounts } from "./verdict-counts.ts";

export interface Inbox {
  /** Returns the verdict for one delivery; runs the message unless it has run. Never rejects. */
  consume(message: Message): Promise<Verdict>;
  /**
   * From now on a message is given back instead of being held, and instead of running again by itself after its batch was
   * undone. What is running ends. This is final.
   */
  close(): void;
  counts(): ConsumerCounts;
}

/** @param batches whose transactions the message shares; null if it has its own */
export type SubmitMessage<Tx, I> = (
  message: Message,
  read: Extract<ReadMessage<I>, { kind: "readable" }>,
  batches: TransactionBatches<Tx> | null,
) => Promise<Result>;

/** Between two tries of a message that is held. */
const holdPauses: RetryPauses = { firstMs: 50, maxMs: 1_000 };
/** Far longer than it takes to find out whether a message is running elsewhere. */
const secondLookMs = 500;

/** The state of a message from one try to the next. */
interface Watch {
  /** False for a first delivery, so that a message which succeeds at once costs no extra writes. */
  readonly counted: boolean;
  /** The tally at the latest look that found the message to kill its process; null if none has. */
  suspected: MessageTally | null;
  /**
   * Returns that are not written yet; until they are, their runs look like deaths. Includes one for a start in doubt: if that
   * start was not written after all, one more death goes uncounted.
   */
  unwrittenReturns: number;
  /** Set between the two looks that make it a dead letter; the message is not given back in between. */
  looksAgain: boolean;
  /** Since when the message's work may be committed; on the process's monotonic clock. */
  inDoubtSinceMs: number | null;
  /** Why it is dead, once that is decided. It does not run again. */
  burial: { readonly because: MessageDeath; readonly error: unknown } | null;
}

export class MessageInbox<Tx, I> implements Inbox {
  readonly #runtime: Runtime<Tx>;
  readonly #operation: Operation;
  readonly #settings: InboxSettings<I>;
  readonly #submit: SubmitMessage<Tx, I>;
  readonly #tallies: Tallies<Tx>;
  readonly #batches: TransactionBatches<Tx> | null;
  readonly #counts = new VerdictCounts();
  readonly #closing = new AbortController();
  /** A message that may have killed its process runs alone, so that another death is known to be its doing. */
  readonly #turns = new ExclusiveRunner();
  /** The latest counted delivery of each message that is not decided yet, by the message's digest. */
  readonly #counted = new Map<string, Promise<Verdict>>();

  constructor(
    runtime: Runtime<Tx>,
    operation: Operation,
    settings: InboxSettings<I>,
    submit: SubmitMessage<Tx, I>,
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
    const decide = () => this.#afterCounted(message, read);
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

  /**
   * Decides one delivery after the earlier ones of the same message that are counted, and then counts it too, even if the
   * broker calls it a first one: nats-server 2.9 can deliver a dead consumer's message twice at the same time, and mark the
   * second delivery as a first one. If that one ran uncounted, a message that kills its process would kill every new one.
   */
  async #afterCounted(message: Message, read: ReadMessage<I>): Promise<Verdict> {
    const { digest } = read.facts;
    const earlier = this.#counted.get(digest);
    if (!message.redelivered && earlier === undefined) return this.#untilDecided(message, read, false);
    const decide = () => this.#untilDecided(message, read, true);
    const verdict = earlier === undefined ? decide() : earlier.then(decide);
    this.#counted.set(digest, verdict);
    try {
      return await verdict;
    } finally {
      if (this.#counted.get(digest) === verdict) this.#counted.delete(digest);
    }
  }

  /** Between two tries it holds the message only: no lock, no connection, and no other message waits for it. */
  async #untilDecided(message: Message, read: ReadMessage<I>, counted: boolean): Promise<Verdict> {
    const { clock, random } = this.#runtime.ports;
    const { signal } = this.#closing;
    const deadline = clock.monotonicMs() + this.#settings.holdMs;
    const watch: Watch = {
      counted,
      suspected: null,
      looksAgain: false,
      unwrittenReturns: 0,
      inDoubtSinceMs: null,
      burial: null,
    };
    for (let tries = 1; ; tries++) {
      const outcome = await this.#try(message, read, watch);
      if (outcome.kind !== "busy") return outcome.verdict;
      // Returns that cannot be written now are written before the next decision.
      await this.#writeReturns(read.facts, watch).catch(() => {});
      const { because } = outcome;
      const pauseMs = Math.max(outcome.afterMs ?? 0, retryPauseMs(tries, random, holdPauses));
      const leftMs = deadline - clock.monotonicMs();
      if (signal.aborted) return stopping;
      // The next consumer would count an unwritten return as a death, and would start again with its first look.
      const mayLeave = watch.unwrittenReturns === 0 && !watch.looksAgain;
      if (mayLeave && pauseMs > leftMs) return { settle: "give_back", because, afterMs: Math.ceil(pauseMs) };
      await pause(clock, pauseMs, signal);
    }
  }

  /** An end that cannot be written is also left to a later try; until then the message stays unacknowledged. */
  async #try(message: Message, read: ReadMessage<I>, watch: Watch): Promise<Tried> {
    try {
      if (read.kind === "unreadable") return await this.#bury(message, read.facts, read.because, read.error);
      // Set if the message's death is decided and could not be written.
      const { burial } = watch;
      if (burial !== null) return await this.#bury(message, read.facts, burial.because, burial.error, watch);
      if (!watch.counted) return await this.#turns.together(() => this.#run(message, read, watch));
      await this.#writeReturns(read.facts, watch);
      const tally = await this.#tallies.find(read.facts);
      switch (this.#classify(tally)) {
        case "dead":
          return decided({ settle: "dead", because: "dead-already" });
        case "failed-too-often":
          return await this.#bury(message, read.facts, "failed", null, watch);
        case "kills-its-process":
          return await this.#confirmKills(message, read, tally, watch);
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

  /** A message with one counted death is only suspect, because another message in the same process may have caused that. */
  #classify(
    tally: MessageTally | null,
  ): "clear" | "suspect" | "kills-its-process" | "failed-too-often" | "dead" {
    if (tally === null) return "clear";
    if (tally.state === "dead") return "dead";
    if (tally.failures >= this.#settings.failuresMax) return "failed-too-often";
    const unreturned = tally.starts - tally.returns;
    if (unreturned >= this.#settings.killsMax) return "kills-its-process";
    return unreturned > 0 ? "suspect" : "clear";
  }

  /**
   * A message that has finished, or is running, did not kill its process. While another consumer tries it and finds it busy,
   * the tally counts a start without a return for that moment; so it is buried only if the tally is the same at both looks.
   */
  async #confirmKills(
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
    // Buries only under an unchanged tally: a consumer that freed the key since the first look has written its return.
    const isBuried = await this.#tallies.bury(read.facts, message, "kills-its-process", tally);
    return isBuried ? this.#buried(read.facts, "kills-its-process", null) : later;
  }

  /** Whether the key neither runs nor has a record. Takes the key's lock, because an attempt in a transaction shows no record until its COMMIT. */
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

  /** Runs the message; called when its turn has come. */
  async #run(message: Message, read: Readable<I>, watch: Watch): Promise<Tried> {
    const { facts } = read;
    if (this.#closing.signal.aborted) return decided(stopping);
    if (this.#mayBeForgotten(watch)) return this.#bury(message, facts, "outcome-unknown", null);
    if (watch.counted && (await this.#start(facts, watch)) === "dead") return this.#deadAlready(facts, watch);
    const result = await this.#submitted(message, read, watch);
    if (watch.counted) watch.unwrittenReturns += 1;
    switch (result.kind) {
      case "done":
        if (watch.counted) await this.#forget(facts);
        return decided({ settle: "ack", because: result.because });
      case "busy":
        await this.#writeReturns(facts, watch);
        return result;
      case "failed":
        return this.#failed(message, facts, watch, result);
      case "dead":
        return this.#bury(message, facts, result.because, result.error, watch);
      default:
        return result satisfies never;
    }
  }

  async #submitted(message: Message, read: Readable<I>, watch: Watch): Promise<MessageResult> {
    const { clock } = this.#runtime.ports;
    const beganMs = clock.monotonicMs();
    // A message that is delivered again may have failed or killed its process, so it does not share a transaction with others.
    const batches = watch.counted ? null : this.#batches;
    const result = await this.#submit(message, read, batches).then(messageResultOf, messageResultOfError);
    if (result.kind === "busy" && result.mayHaveHappened) watch.inDoubtSinceMs ??= beganMs;
    return result;
  }

  /** Whether the message's key may be forgotten, so that it would run as new. Only a long wait for its turn takes so long: `checkRemembered`. */
  #mayBeForgotten({ inDoubtSinceMs }: Watch): boolean {
    if (inDoubtSinceMs === null) return false;
    return this.#runtime.ports.clock.monotonicMs() - inDoubtSinceMs >= rememberedMs(this.#operation);
  }

  async #start(facts: MessageFacts, watch: Watch): Promise<MessageTally["state"]> {
    try {
      return (await this.#tallies.start(facts)).state;
    } catch (error) {
      if (mayHaveHappened(error)) watch.unwrittenReturns += 1;
      throw error;
    }
  }

  /** Another consumer has buried the message since this one read its tally. */
  async #deadAlready(facts: MessageFacts, watch: Watch): Promise<Tried> {
    watch.unwrittenReturns += 1;
    await this.#writeReturns(facts, watch);
    return decided({ settle: "dead", because: "dead-already" });
  }

  async #failed(
    message: Message,
    facts: MessageFacts,
    watch: Watch,
    { because, errorCode, error }: Extract<MessageResult, { kind: "failed" }>,
  ): Promise<Tried> {
    const { failures } = await this.#tallies.failed(facts, watch.counted, errorCode);
    if (watch.counted) watch.unwrittenReturns -= 1;
    this.#runtime.emit({ ...this.#about(facts), type: "message_failed", failures, errorCode, error });
    if (failures >= this.#settings.failuresMax) {
      return this.#bury(message, facts, because === "handler-failed" ? "failed" : because, error, watch);
    }
    const { backoffMs, backoffMaxMs } = this.#settings;
    const pauses = { firstMs: backoffMs, maxMs: backoffMaxMs };
    const afterMs = Math.ceil(retryPauseMs(failures, this.#runtime.ports.random, pauses));
    return decided({ settle: "give_back", because, afterMs });
  }

  /** @param watch notes that only this is left to do, in case the write fails */
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

  /** Writes the returns that are not written yet. */
  async #writeReturns(facts: MessageFacts, watch: Watch): Promise<void> {
    if (watch.unwrittenReturns === 0) return;
    await this.#tallies.returned(facts, watch.unwrittenReturns);
    watch.unwrittenReturns = 0;
  }

  /** Removes the tally. The message has succeeded even if this fails, and a tally expires by itself. */
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
  | Extract<MessageResult, { readonly kind: "busy" }>
  | { readonly kind: "decided"; readonly verdict: Verdict };

function isSame(left: MessageTally | null, right: MessageTally | null): boolean {
  return left?.starts === right?.starts && left?.returns === right?.returns;
}

const stopping: Verdict = { settle: "give_back", because: "stopping", afterMs: 0 };

function decided(verdict: Verdict): Tried {
  return { kind: "decided", verdict };
}
