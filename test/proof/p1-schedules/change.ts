/** What a step has changed, as the parts of the judgement see it. */
import type { LatchkeyRecord } from "../../../packages/latchkey/src/engine/record.ts";
import type { MemoryRow } from "../../../packages/latchkey/src/stores/memory/rows.ts";
import type { Ask } from "./ask.ts";
import type { Done } from "./execute.ts";
import { isOrder, type OrderRow, type Plan } from "./operations.ts";
import type { Shared } from "./shared.ts";

export interface Judged {
  /** The invariant, and what was seen; null: all is well. */
  readonly violation: string | null;
  /** What has happened that must be reachable. */
  readonly reached: readonly string[];
}

export type Judge = (before: Shared, ask: Ask, done: Done) => Judged;

/** One change, as the parts of the judgement see it. */
export interface Change {
  readonly plan: Plan;
  readonly ask: Ask;
  readonly before: Shared;
  readonly after: Shared;
  /** The key's row before and after. */
  readonly was: MemoryRow | null;
  readonly is: MemoryRow | null;
  readonly value: unknown;
  reach(what: string): void;
}

export function isTransactional({ shape }: Plan): boolean {
  return shape === "transaction" || shape === "enqueue";
}

export function ordersOf({ tables }: Shared): readonly OrderRow[] {
  return tables.flatMap(({ row }) => (isOrder(row) ? [row] : []));
}

export function isFinal(record: LatchkeyRecord | null): boolean {
  return record?.state === "completed" || record?.state === "failed";
}
