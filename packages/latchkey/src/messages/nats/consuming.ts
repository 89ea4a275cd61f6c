/** Takes messages from JetStream, a bounded number at once, and settles each. */
import type { Runtime } from "../../execution/runtime.ts";
import { retryPauseMs } from "../../time/retry-pause.ts";
import type { Message, Verdict } from "../broker.ts";
import { Pauses, reportConsumer } from "../consuming.ts";
import type { Inbox } from "../inbox.ts";
import type { NatsConsumer, NatsDelivery, NatsMessages } from "./client.ts";
import { type BeforeStart, Redeliveries } from "./redeliveries.ts";

export interface ConsumeFrom {
  readonly consumer: NatsConsumer;
  readonly source?: string;
  readonly terminate?: boolean;
}

/** The pauses before consuming again after the messages have ended unexpectedly. */
const consumeAgainPauses = { firstMs: 1_000, maxMs: 10_000 };

/**
 * How long the server may keep one request for messages. It sends two heartbeats in that time, and the client sends a new
 * request when two are missing. With the client's default of 30 seconds, it sent no request for 45 seconds to a cluster that
 * had lost the consumer's leader.
 */
const requestMs = 5_000;

/**
 * Problems that stop deliveries without ending the client's iterator of messages: the client goes on sending requests, and gets
 * messages again once the problem is over.
 */
const problems: ReadonlyMap<string, string> = new Map([
  ["consumer_deleted", "The server has deleted the consumer"],
  ["consumer_not_found", "The server does not have the consumer"],
  ["stream_not_found", "The server does not have the consumer's stream"],
  ["no_responders", "No server responds for the consumer's stream"],
]);

export class JetStreamConsuming<Tx> {
  readonly #runtime: Runtime<Tx>;
  readonly #options: ConsumeFrom;
  readonly #inbox: Inbox;
  readonly #limits: { readonly size: number; readonly workingMs: number };
  readonly #running = new Set<Promise<void>>();
  readonly #pauses: Pauses<Tx>;
  readonly #stopped = Promise.withResolvers<void>();
  #messages: NatsMessages | null = null;
  #stopping = false;

  constructor(
    runtime: Runtime<Tx>,
    options: ConsumeFrom,
    inbox: Inbox,
    limits: { readonly size: number; readonly workingMs: number },
  ) {
    this.#runtime = runtime;
    this.#options = options;
    this.#inbox = inbox;
    this.#limits = limits;
    this.#pauses = new Pauses(runtime);
  }

  /** Runs until `stop`, and then until everything that has begun is settled. */
  async run(): Promise<void> {
    const { random } = this.#runtime.ports;
    for (let tries = 1; !this.#stopping; tries++) {
      try {
        await this.#consume();
        tries = 1;
        if (!this.#stopping) this.#report(new Error("The connection is closed, so no more messages arrive"));
      } catch (error) {
        this.#report(error);
      }
      await this.#pauses.for(retryPauseMs(tries, random, consumeAgainPauses));
    }
    await Promise.all(this.#running);
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    this.#stopped.resolve();
    this.#pauses.close();
    await this.#messages?.close();
  }

  async #consume(): Promise<void> {
    // If the server cannot be reached, the client waits several seconds for its answer; `stop` must not wait that long.
    const before = await Promise.race([this.#beforeStart(), this.#stopped.promise]);
    if (this.#stopping || before === undefined) return;
    const redeliveries = new Redeliveries(before);
    const messages = await this.#options.consumer.consume({
      max_messages: this.#limits.size,
      expires: requestMs,
    });
    this.#messages = messages;
    if (this.#stopping) await messages.close();
    void this.#watch(messages).catch((error: unknown) => this.#report(error));
    for await (const delivery of messages) {
      if (this.#stopping) {
        delivery.nak();
        continue;
      }
      const message = this.#messageOf(delivery, redeliveries.isRedelivered(delivery));
      const running = this.#handle(delivery, message).finally(() => this.#running.delete(running));
      this.#running.add(running);
      if (this.#running.size >= this.#limits.size) await Promise.race(this.#running);
    }
  }

  /** What the server reports about earlier deliveries; null if it reports nothing. */
  async #beforeStart(): Promise<BeforeStart | null> {
    try {
      const { num_ack_pending: ackPending, delivered } = await this.#options.consumer.info();
      return { ackPending, latest: { stream: delivered.stream_seq, consumer: delivered.consumer_seq } };
    } catch {
      // The account may lack the permission. Any other cause is reported by `consume`, if it prevents that as well.
      return null;
    }
  }

  async #watch(messages: NatsMessages): Promise<void> {
    for await (const { type } of messages.status()) {
      const problem = problems.get(type);
      if (problem === undefined || this.#stopping) continue;
      this.#report(new Error(`${problem}; no messages arrive until that changes`));
    }
  }

  #report(error: unknown): void {
    reportConsumer(this.#runtime, this.#options.source ?? "JetStream", error);
  }

  async #handle(delivery: NatsDelivery, message: Message): Promise<void> {
    const working = this.#keepWorking(delivery);
    try {
      const verdict = await this.#inbox.consume(message);
      await acknowledge(delivery, verdict, this.#options.terminate ?? false);
    } catch (error) {
      // The message was not settled, so the server delivers it again.
      reportConsumer(this.#runtime, delivery.subject, error);
    } finally {
      working.end();
    }
  }

  #keepWorking(delivery: NatsDelivery) {
    const { clock } = this.#runtime.ports;
    let cancel = () => {};
    const again = () => {
      const notify = () => {
        try {
          delivery.working();
        } catch {
          // The connection is lost, and the server will deliver the message again.
        }
        again();
      };
      cancel = clock.startTimer(this.#limits.workingMs, notify, "background");
    };
    again();
    return { end: () => cancel() };
  }

  #messageOf({ subject, data, headers }: NatsDelivery, redelivered: boolean): Message {
    const names = headers?.keys() ?? [];
    const all = Object.fromEntries(names.map((name) => [name, headers?.get(name) ?? ""]));
    return {
      id: headers?.get("Nats-Msg-Id") || null,
      source: this.#options.source ?? subject,
      body: data,
      contentType: headers?.get("Content-Type") || null,
      headers: all,
      system: "nats",
      redelivered,
    };
  }
}

async function acknowledge(delivery: NatsDelivery, verdict: Verdict, terminate: boolean): Promise<void> {
  switch (verdict.settle) {
    case "ack":
      await delivery.ackAck();
      return;
    case "give_back":
      delivery.nak(verdict.afterMs);
      return;
    case "dead":
      if (terminate) delivery.term(verdict.because);
      else await delivery.ackAck();
      return;
    default:
      verdict satisfies never;
  }
}
