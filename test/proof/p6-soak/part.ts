/** A part of tier P6. Its results are added to those of the other parts. */
import type { Sitting, TierResult } from "../harness/tier.ts";

export interface Part {
  readonly name: string;
  /** @throws {ProofFailure} at the first thing that must not be. */
  run(sitting: Sitting): Promise<TierResult>;
}
