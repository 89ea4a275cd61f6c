/** Shared by the consumers of all brokers: options, reports, and the pauses that a broker cannot make. */
import type { Runtime } from "../execution/runtime.ts";
import { pause } from "../ports.ts";
import type { MessageConsumer } from "./broker.ts";
import type { InboxOptions } from "./inbox-options.ts";
import type { Inbox } from "./message-inbox.ts";

/** Pauses that all end at once: when the consumer stops, and when the unacknowledged messages were lost with the connection. */
export class Pauses<Tx> {
  readonly #runtime: Runtime<Tx>;
  #interruption = new AbortController();
  #closed = false;

  constructor(runtime: Runtime<Tx>) {
    this.#runtime = runtime;
  }

  async for(ms: number): Promise<void> {
    if (this.#closed || ms <= 0) return;
    await pause(this.#runtime.ports.clock, ms, this.#interruption.signal, "background");
  }

  interrupt(): void {
    this.#interruption.abort();
    this.#interruption = new AbortController();
  }

  close(): void {
    this.#closed = true;
    this.interrupt();
  }
}

/** Only reports an error of a broker, because the broker's client recovers from it. */
export function reportConsumer<Tx>({ emit }: Runtime<Tx>, source: string, error: unknown): void {
  emit({ type: "service_error", service: `consumer of ${source}`, error });
}

/** The consumer, stopped by `latchkey.close()` unless it is stopped before. */
export function stoppedOnClose<Tx>({ lifecycle }: Runtime<Tx>, consumer: MessageConsumer): MessageConsumer {
  return { ...consumer, stop: lifecycle.stopping(() => consumer.stop()) };
}

/** Starts to consume. `stop` resolves when everything that has begun is settled. */
export function startConsuming<Tx>(
  runtime: Runtime<Tx>,
  inbox: Pick<Inbox, "counts" | "close">,
  consuming: { run(): Promise<void>; stop(): unknown },
): MessageConsumer {
  const over = consuming.run();
  return stoppedOnClose(runtime, {
    counts: () => inbox.counts(),
    async stop() {
      inbox.close();
      await consuming.stop();
      await over;
    },
  });
}

/** How many messages a consumer runs at once by default. The inbox checks the batch size. */
export function underWayDefault({ batchSize = false }: Pick<InboxOptions<never>, "batchSize">): number {
  return typeof batchSize === "number" ? Math.max(1, 2 * batchSize) : 20;
}

/** @throws {TypeError} */
export function checkCount(name: string, value: number, max: number): number {
  if (Number.isSafeInteger(value) && value > 0 && value <= max) return value;
  throw new TypeError(`${name} must be a whole number from 1 to ${max} (got ${value})`);
}
