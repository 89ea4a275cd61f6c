import type { ConsumerCounts, Verdict } from "./broker.ts";

const kinds = { executed: "executed", accepted: "accepted", duplicate: "duplicates" } as const;

/** Counts messages by their verdicts. */
export class VerdictCounts {
  readonly #counts = { received: 0, executed: 0, accepted: 0, duplicates: 0, givenBack: 0, dead: 0 };

  received(): void {
    this.#counts.received += 1;
  }

  settled(verdict: Verdict): void {
    switch (verdict.settle) {
      case "ack":
        this.#counts[kinds[verdict.because]] += 1;
        break;
      case "give_back":
        this.#counts.givenBack += 1;
        break;
      case "dead":
        this.#counts.dead += 1;
        break;
      default:
        verdict satisfies never;
    }
  }

  now(): ConsumerCounts {
    return { ...this.#counts };
  }
}
