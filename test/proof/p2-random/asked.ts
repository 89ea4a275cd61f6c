/** One request of a client, and what came of it. */

import type { RecordKey } from "../../../packages/latchkey/src/engine/record.ts";
import type { Result } from "../../../packages/latchkey/src/operations/attempt.ts";
import type { ClientKey, OperationPlan } from "./config.ts";

export interface Request {
  readonly plan: OperationPlan;
  readonly key: ClientKey;
  /** Which of the bodies. */
  readonly digest: number;
  readonly principal: string | null;
}

export type RequestResult = Result | { readonly kind: "threw"; readonly error: unknown };

export interface Asked extends Request {
  readonly record: RecordKey;
  /** Steps and store time at which it began and ended; null: it has not, or its process died. */
  readonly begun: number;
  readonly begunMs: number;
  ended: number | null;
  endedMs: number;
  reply: RequestResult | null;
  /** Numbers of its handler's runs. */
  readonly nonces: number[];
}

/** What the world itself throws: nothing of it is a mistake. */
export class WorldError extends Error {
  override readonly name = "WorldError";
}
