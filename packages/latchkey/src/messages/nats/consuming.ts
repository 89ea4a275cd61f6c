/** Takes messages from JetStream, a bounded number at once, and settles each. */
import type { Runtime } from "../../attempt/runtime.ts";
import type { Message, Verdict } from "../broker.ts";
import { Pauses, reportConsumer } from "../consuming.ts";
import type { Inbox } from "../inbox.ts";
import type { NatsConsumer, NatsDelivery, NatsMessages } from "./client.ts";

export interface ConsumeFrom {
  readonly consumer: NatsConsumer;
  readonly source?: string;
  readonly terminate?: boolean;
}

/** How long after the messages have ended without our doing they are asked for again. */
const consumeAgainMs = 1_000;

export class JetStreamConsuming<Tx> {
  readonly #runtime: Runtime<Tx>;
  readonly #options: ConsumeFrom;
  readonly #inbox: Inbox;
  readonly #limits: { readonly size: number; readonly workingMs: number };
  readonly #running = new Set<Promise<void>>();
  readonly #pauses: Pauses<Tx>;
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

  /** Until `stop`; then until everything that has begun is settled. */
  async run(): Promise<void> {
    while (!this.#stopping) {
      try {
        await this.#consume();
      } catch (error) {
        reportConsumer(this.#runtime, this.#options.source ?? "JetStream", error);
      }
      await this.#pauses.for(consumeAgainMs);
    }
    await Promise.all(this.#running);
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    this.#pauses.close();
    await this.#messages?.close();
  }

  async #consume(): Promise<void> {
    const messages = await this.#options.consumer.consume({ max_messages: this.#limits.size });
    this.#messages = messages;
    if (this.#stopping) await messages.close();
    for await (const delivery of messages) {
      if (this.#stopping) {
        delivery.nak();
        continue;
      }
      const running = this.#handle(delivery).finally(() => this.#running.delete(running));
      this.#running.add(running);
      if (this.#running.size >= this.#limits.size) await Promise.race(this.#running);
    }
  }

  async #handle(delivery: NatsDelivery): Promise<void> {
    const working = this.#keepWorking(delivery);
    try {
      const verdict = await this.#inbox.consume(this.#messageOf(delivery));
      await settle(delivery, verdict, this.#options.terminate ?? false);
    } catch (error) {
      // It was not settled, so it comes again.
      reportConsumer(this.#runtime, delivery.subject, error);
    } finally {
      working.end();
    }
  }

  #keepWorking(delivery: NatsDelivery) {
    const { clock } = this.#runtime.ports;
    let cancel = () => {};
    const again = () => {
      cancel = clock.startTimer(this.#limits.workingMs, () => {
        try {
          delivery.working();
        } catch {
          // The connection is gone, and the message with it.
        }
        again();
      });
    };
    again();
    return { end: () => cancel() };
  }

  #messageOf({ subject, data, headers, redelivered }: NatsDelivery): Message {
    const names = headers?.keys() ?? [];
    const all = Object.fromEntries(names.map((name) => [name, headers?.get(name) ?? ""]));
    return {
      id: headers?.get("Nats-Msg-Id") || null,
      source: this.#options.source ?? subject,
      body: data,
      contentType: headers?.get("Content-Type") || null,
      headers: all,
      redelivered,
    };
  }
}

async function settle(delivery: NatsDelivery, verdict: Verdict, terminate: boolean): Promise<void> {
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
