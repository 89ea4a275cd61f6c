/** Shared by transactions, phases and deliveries of the memory store: a buffer of writes, and the limit on its idle time. */
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

/** Starts the idle limit, which every use of `tx` restarts. `onEnd` is called when the store has ended the buffer, or it is closed. */
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

/** The outcome of a commit after the idle limit. */
export function idleRefusal<T>(value: T) {
  const error = new StoreError("rolled_back", { message: "The transaction was idle for too long" });
  return { kind: "refused", value, because: "other", error } as const;
}
