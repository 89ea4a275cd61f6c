/** What transactions, phases and deliveries of the memory store share: a buffer of writes, and the limit on its idle time. */
import { StoreError } from "../../errors.ts";
import type { Clock } from "../../ports.ts";
import type { AuditEntry } from "../settlement.ts";
import type { MemoryEffects } from "./effects.ts";
import type { MemoryMessages } from "./messages.ts";
import type { MemoryRows } from "./rows.ts";
import { type MemoryTables, WriteBuffer } from "./tables.ts";

export interface MemoryState {
  readonly rows: MemoryRows;
  readonly tables: MemoryTables;
  readonly effects: MemoryEffects;
  readonly messages: MemoryMessages;
  /** Oldest first. */
  readonly audit: AuditEntry[];
  readonly clock: Clock;
  /** The store's time. */
  readonly now: () => number;
}

export interface OpenBuffer {
  readonly buffer: WriteBuffer;
  close(): void;
}

/** Starts the idle limit, which every use of `tx` starts again. `onEnd`: the store ended it, or it was closed. */
export function openBuffer(state: MemoryState, idleLimitMs: number, onEnd = () => {}): OpenBuffer {
  let cancelTimer = () => {};
  const watch = () => {
    cancelTimer();
    const endIdle = () => {
      buffer.endByStore();
      onEnd();
    };
    cancelTimer = state.clock.startTimer(idleLimitMs, endIdle, "background");
  };
  const buffer = new WriteBuffer(state.tables, watch);
  watch();
  const close = () => {
    cancelTimer();
    buffer.revoke();
    onEnd();
  };
  return { buffer, close };
}

/** How a commit ends that came after the idle limit. */
export function idleRefusal<T>(value: T) {
  const error = new StoreError("rolled_back", { message: "The transaction was idle for too long" });
  return { kind: "refused", value, because: "other", error } as const;
}
