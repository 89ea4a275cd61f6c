/** A broker in this process, and a textbook adapter for it, correct unless a mistake is planted. */
import {
  createInbox,
  type Inbox,
  type Latchkey,
  type Message,
  type MessageConsumer,
  type MessageHandler,
  type Operation,
  type Verdict,
} from "../../packages/latchkey/src/index.ts";
import { pause, systemPorts } from "../../packages/latchkey/src/ports.ts";
import type { MemoryTransaction } from "../../packages/latchkey/src/stores/memory.ts";
import type {
  BrokerInput,
  BrokerUnderTest,
  ConsumeOptions,
  ConsumerUnderTest,
  PublishedMessage,
} from "../../packages/latchkey-conformance/src/index.ts";

interface Kept {
  readonly message: PublishedMessage;
  readonly delivered: boolean;
}

/** A delivery to one consumer; the broker drops it when that consumer is gone. */
interface Delivery extends Kept {
  settle(how: "ack" | "requeue" | "reject"): void;
}

type Take = (delivery: Delivery) => void;

/** Delivers at least once, to any consumer with capacity, oldest first. */
class MemoryQueue {
  readonly #waiting: Kept[] = [];
  readonly #links = new Set<Link>();
  readonly aside: PublishedMessage[] = [];

  publish(messages: readonly PublishedMessage[]): void {
    for (const message of messages) this.#waiting.push({ message, delivered: false });
    this.pump();
  }

  open(size: number, take: Take): Link {
    const link = new Link(this, size, take);
    this.#links.add(link);
    this.pumpSoon();
    return link;
  }

  shut(link: Link): void {
    this.#links.delete(link);
  }

  requeue(kept: readonly Kept[]): void {
    this.#waiting.unshift(...kept.map(({ message }) => ({ message, delivered: true })));
    this.pumpSoon();
  }

  pumpSoon(): void {
    systemPorts.clock.startTimer(1, () => this.pump());
  }

  pump(): void {
    for (const link of this.#links) {
      while (link.hasRoom && this.#waiting.length > 0) link.deliver(this.#waiting.shift() as Kept);
    }
  }

  unsettled(): number {
    return [...this.#links].reduce((sum, link) => sum + link.under, this.#waiting.length);
  }
}

/** A consumer's connection. Settling on a closed connection has no effect. */
class Link {
  readonly #queue: MemoryQueue;
  readonly #size: number;
  readonly #take: Take;
  readonly #under = new Set<Kept>();
  #open = true;

  constructor(queue: MemoryQueue, size: number, take: Take) {
    this.#queue = queue;
    this.#size = size;
    this.#take = take;
  }

  get hasRoom(): boolean {
    return this.#open && this.#under.size < this.#size;
  }

  get under(): number {
    return this.#under.size;
  }

  deliver(kept: Kept): void {
    this.#under.add(kept);
    const settle: Delivery["settle"] = (how) => {
      if (!this.#under.delete(kept)) return;
      if (how === "reject") this.#queue.aside.push(kept.message);
      // Later in both cases: an adapter that loops must not keep timers from firing.
      if (how === "requeue") this.#queue.requeue([kept]);
      else this.#queue.pumpSoon();
    };
    this.#take({ ...kept, settle });
  }

  takeNoMore(): void {
    this.#open = false;
  }

  close(): void {
    this.takeNoMore();
    this.#queue.shut(this);
    this.#queue.requeue([...this.#under]);
    this.#under.clear();
  }
}

/** The possible mistakes of an adapter. */
export type AdapterMistake =
  | "acknowledges before it asks the inbox"
  | "acknowledges once the handler has ended"
  | "never acknowledges"
  | "returns duplicates to the broker"
  | "gives each delivery a new id"
  | "returns messages that take long"
  | "acknowledges messages that it should return"
  | "keeps messages that it should return"
  | "returns messages without a pause"
  | "pauses everything for one message"
  | "reports every delivery as the first"
  | "reports only its own returns as redelivered"
  | "returns dead letters to the broker"
  | "acknowledges dead letters that the broker should set aside"
  | "delivers the body as text"
  | "omits the content type"
  | "runs one message at a time"
  | "ignores the concurrency limit"
  | "does not wait when it stops"
  | "does not close the inbox when it stops"
  | "continues to receive when it stops"
  | "acknowledges what it gives back when it stops"
  | "stops when its connection breaks";

type Handler = MessageHandler<MemoryTransaction, "transaction", BrokerInput>;

class MemoryConsumer implements MessageConsumer {
  readonly #queue: MemoryQueue;
  readonly #size: number;
  readonly #inbox: Inbox;
  readonly #mistake: AdapterMistake | null;
  readonly #running = new Set<Promise<void>>();
  readonly #stopping = new AbortController();
  readonly #ended = new Map<string, () => void>();
  readonly #givenBack = new Set<string>();
  #link: Link;
  #line: Promise<unknown> = Promise.resolve();

  constructor(
    queue: MemoryQueue,
    latchkey: Latchkey<MemoryTransaction>,
    operation: Operation<"transaction">,
    { size, ...options }: ConsumeOptions,
    handler: Handler,
    mistake: AdapterMistake | null,
  ) {
    this.#queue = queue;
    this.#mistake = mistake;
    this.#size = this.#has("ignores the concurrency limit") ? 1_000 : size;
    this.#inbox = createInbox(latchkey, operation, options, async (context) => {
      await handler(context);
      this.#ended.get(String(context.message.id))?.();
    });
    this.#link = this.#open();
  }

  #has(...some: readonly AdapterMistake[]): boolean {
    return some.some((mistake) => mistake === this.#mistake);
  }

  #open(): Link {
    return this.#queue.open(this.#size, (delivery) => {
      const running = this.#take(delivery).finally(() => this.#running.delete(running));
      this.#running.add(running);
    });
  }

  async #take(delivery: Delivery): Promise<void> {
    if (!this.#has("runs one message at a time", "pauses everything for one message"))
      return this.#handle(delivery);
    this.#line = this.#line.then(() => this.#handle(delivery));
    await this.#line;
  }

  async #handle(delivery: Delivery): Promise<void> {
    if (this.#has("acknowledges before it asks the inbox")) delivery.settle("ack");
    if (this.#has("acknowledges once the handler has ended")) {
      this.#ended.set(delivery.message.id, () => delivery.settle("ack"));
    }
    const consuming = this.#inbox.consume(this.#messageOf(delivery));
    if (this.#has("returns messages that take long")) {
      const late = pause(systemPorts.clock, 50).then(() => null);
      if ((await Promise.race([consuming, late])) === null) delivery.settle("requeue");
    }
    await this.#settle(delivery, await consuming);
  }

  async #settle(delivery: Delivery, verdict: Verdict): Promise<void> {
    switch (verdict.settle) {
      case "ack":
        if (this.#has("never acknowledges")) return;
        if (verdict.because === "duplicate" && this.#has("returns duplicates to the broker"))
          delivery.settle("requeue");
        else delivery.settle("ack");
        return;
      case "give_back":
        this.#givenBack.add(delivery.message.id);
        if (this.#has("keeps messages that it should return")) return;
        if (!this.#has("returns messages without a pause"))
          await pause(systemPorts.clock, verdict.afterMs, this.#stopping.signal);
        delivery.settle(this.#loses() ? "ack" : "requeue");
        return;
      case "dead":
        if (this.#has("returns dead letters to the broker")) delivery.settle("requeue");
        else if (this.#has("acknowledges dead letters that the broker should set aside"))
          delivery.settle("ack");
        else delivery.settle("reject");
        return;
      default:
        verdict satisfies never;
    }
  }

  #loses(): boolean {
    if (this.#has("acknowledges messages that it should return")) return true;
    return this.#has("acknowledges what it gives back when it stops") && this.#stopping.signal.aborted;
  }

  #messageOf({ message, delivered }: Delivery): Message {
    const { id, body, contentType } = message;
    return {
      id: this.#has("gives each delivery a new id") && delivered ? `${id} again` : id,
      source: "memory",
      body: this.#has("delivers the body as text") ? Buffer.from(Buffer.from(body).toString("utf8")) : body,
      contentType: this.#has("omits the content type") ? null : contentType,
      headers: {},
      redelivered: delivered && !this.#forgets(id),
    };
  }

  #forgets(id: string): boolean {
    if (this.#has("reports every delivery as the first")) return true;
    return this.#has("reports only its own returns as redelivered") && !this.#givenBack.has(id);
  }

  counts() {
    return this.#inbox.counts();
  }

  async stop(): Promise<void> {
    if (!this.#has("does not close the inbox when it stops")) this.#inbox.close();
    this.#stopping.abort();
    if (this.#has("does not wait when it stops")) return this.#link.close();
    if (this.#has("continues to receive when it stops")) return;
    this.#link.takeNoMore();
    while (this.#running.size > 0) await Promise.all(this.#running);
    this.#link.close();
  }

  /** As if the process had been killed: its attempt continues in this process, but has no effect on the broker. */
  die(): void {
    this.#link.close();
  }

  cut(): void {
    this.#link.close();
    if (!this.#has("stops when its connection breaks")) this.#link = this.#open();
  }
}

/** A queue, and an adapter with or without a mistake. */
export function memoryBroker(mistake: AdapterMistake | null = null): BrokerUnderTest {
  const queue = new MemoryQueue();
  const consumers: MemoryConsumer[] = [];
  return {
    publish: async (messages) => queue.publish(messages),
    async consume(latchkey, operation, options, handler): Promise<ConsumerUnderTest> {
      const consumer = new MemoryConsumer(queue, latchkey, operation, options, handler, mistake);
      consumers.push(consumer);
      return { consumer, die: async () => consumer.die(), cut: async () => consumer.cut() };
    },
    unsettled: async () => queue.unsettled(),
    putAside: async () => queue.aside.length,
    close() {
      for (const consumer of consumers) consumer.die();
    },
  };
}
