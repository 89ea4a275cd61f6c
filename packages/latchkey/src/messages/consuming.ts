/** What the consumers of brokers share: one message from delivery to settlement, and the pauses that a broker cannot make. */
import type { Runtime } from "../attempt/runtime.ts";
import { pause } from "../ports.ts";

/** Pauses that end all at once: when the consumer stops, and when what is unacknowledged has been lost with its connection. */
export class Pauses<Tx> {
  readonly #runtime: Runtime<Tx>;
  #interruption = new AbortController();
  #closed = false;

  constructor(runtime: Runtime<Tx>) {
    this.#runtime = runtime;
  }

  async for(ms: number): Promise<void> {
    if (!this.#closed && ms > 0) await pause(this.#runtime.ports.clock, ms, this.#interruption.signal);
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

/** Whatever goes wrong with a broker is its client's to mend; it is only told. */
export function reportConsumer<Tx>({ emit }: Runtime<Tx>, source: string, error: unknown): void {
  emit({ type: "service_error", service: `consumer of ${source}`, error });
}

/** @throws {TypeError} */
export function checkCount(name: string, value: number, max: number): number {
  if (Number.isSafeInteger(value) && value > 0 && value <= max) return value;
  throw new TypeError(`${name} must be a whole number from 1 to ${max} (got ${value})`);
}
