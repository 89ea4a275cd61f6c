/** Filters and groups what waits. Stores support few filters, so their lists are filtered here, up to a bound. */
import type { RecordState } from "../engine/record.ts";
import type { DeadMessage, DeadMessages } from "../messages/dead-messages.ts";
import type { Store } from "../stores/store.ts";
import { cursorText, type PageCursor, parseCursor } from "./pages.ts";
import { isoTime } from "./times.ts";
import {
  type AuditLogView,
  auditLogView,
  type DeadEffectView,
  deadEffectView,
  type MessageView,
  messageView,
  type RecordView,
  recordView,
} from "./views.ts";

/** Selects rows of a queue. An absent member matches everything. */
export interface QueueFilter {
  readonly tenant?: string;
  readonly operation?: string;
  /** The effect's name; only for dead effects. */
  readonly effect?: string;
  /** `lastErrorCode` of records and effects, `reason` of messages. */
  readonly errorCode?: string;
  /** At or before this time: milliseconds since the Unix epoch by the store's clock. */
  readonly notAfter?: number;
  /** After this time. */
  readonly after?: number;
}

export interface PageRequest {
  /** Default 50, at most 1,000. */
  readonly limit?: number;
  /** `next` of the previous page; null: start with the oldest. */
  readonly from?: string | null;
}

export interface Page<View> {
  /** Oldest first. */
  readonly items: readonly View[];
  /** Null: this was the last page. Earlier pages may also have fewer items than their limit, or none. */
  readonly next: string | null;
}

/** A queue, or its rows that match a filter, up to the bound. */
export interface Census {
  /** The store's time. */
  readonly now: string;
  readonly count: number;
  /** Whether there are more than were counted. */
  readonly more: boolean;
  readonly oldestAt: string | null;
  /** By operation and error code, and for dead letters also by effect or source; the largest first. */
  readonly causes: readonly Cause[];
  /** Counts by age, oldest first: one for each bound of `ageBoundsMs`, and one for older rows. */
  readonly ages: readonly number[];
  readonly tenants: readonly { readonly tenant: string | null; readonly count: number }[];
}

export interface Cause {
  readonly kind: "record" | "effect" | "message";
  readonly operation: string;
  /** An effect's name, or a message's source. */
  readonly name: string | null;
  readonly errorCode: string | null;
  /** The meaning of the code, as text. */
  readonly reason: string | null;
  readonly count: number;
  readonly oldestAt: string;
  readonly newestAt: string;
}

/** Bounds of `Census.ages`, as ages. */
export const ageBoundsMs = [60, 300, 900, 1_800, 3_600, 21_600, 86_400, 259_200].map((s) => s * 1_000);

/** The most rows read for one page or count. On Postgres that is ten index reads. */
const scannedMax = 10_000;
const scanPage = 1_000;

/** Common to everything that waits. */
interface Waiting<View> {
  readonly view: View;
  readonly cursor: PageCursor;
  readonly tenant: string | null;
  readonly cause: Pick<Cause, "kind" | "operation" | "name" | "errorCode" | "reason">;
}

/** Lists one kind of row from a cursor on. */
export type Source<View> = (after: PageCursor | null, limit: number) => Promise<readonly Waiting<View>[]>;

export function recordSource(
  store: Store<unknown>,
  state: RecordState,
  filter: QueueFilter,
): Source<RecordView> {
  const { tenant = null, operation = null } = filter;
  return async (after, limit) => {
    const found = await store.settlement.list({ state, tenant, operation, limit, after });
    return found.map((record) => {
      const view = recordView(record);
      const { lastErrorCode: errorCode = null, reason = null } = view;
      const cause = { kind: "record", operation: record.operation, name: null, errorCode, reason } as const;
      return { view, cursor: record, tenant: record.tenant, cause };
    });
  };
}

export function effectSource(store: Store<unknown>, filter: QueueFilter): Source<DeadEffectView> {
  const { outbox } = store;
  const { tenant = null, effect = null } = filter;
  if (outbox === null) return async () => [];
  return async (after, limit) => {
    const found = await outbox.list({ state: "dead", effect, tenant, limit, after });
    return found.map((row) => {
      const view = deadEffectView(row);
      const { operation, lastErrorCode: errorCode, reason } = view;
      const cause = { kind: "effect", operation, name: row.effect, errorCode, reason } as const;
      return { view, cursor: row, tenant: row.tenant, cause };
    });
  };
}

export function messageSource(messages: DeadMessages | null, filter: QueueFilter): Source<MessageView> {
  return letterSource(messages, filter, messageView);
}

/** Messages in another view, such as with their payload. */
export function letterSource<View>(
  messages: DeadMessages | null,
  filter: QueueFilter,
  viewOf: (message: DeadMessage) => View,
): Source<View> {
  if (messages === null) return async () => [];
  const { tenant, operation } = filter;
  const only = { ...(tenant !== undefined && { tenant }), ...(operation !== undefined && { operation }) };
  return async (after, limit) => {
    const from = after === null ? {} : { after: { diedAt: after.createdAt, id: after.id } };
    const found = await messages.list({ ...only, limit, ...from });
    return found.map((message) => {
      const { reason: errorCode, explanation: reason, source: name, operation: ofOne } = messageView(message);
      const cause = { kind: "message", operation: ofOne, name, errorCode, reason } as const;
      const cursor = { createdAt: message.diedAt, id: message.id };
      return { view: viewOf(message), cursor, tenant: message.tenant, cause };
    });
  };
}

/**
 * The audit log, newest first. Null: the store has audit rows by key only.
 *
 * @throws {TypeError} for an invalid limit or cursor.
 */
export async function readAuditLog(
  store: Store<unknown>,
  tenant: string | null,
  request: PageRequest,
): Promise<Page<AuditLogView> | null> {
  const { limit, start } = checkedPage(request);
  if (store.listAudit === undefined) return null;
  const before = start === null ? null : { at: start.createdAt, id: start.id };
  // One row more than the limit shows whether there is a next page.
  const entries = await store.listAudit({ tenant, limit: limit + 1, before });
  const items = entries.slice(0, limit);
  const last = entries.length > limit ? items.at(-1) : undefined;
  const next = last === undefined ? null : cursorText({ createdAt: last.at, id: last.id });
  return { items: items.map(auditLogView), next };
}

/** All matches, oldest first, without a bound. */
export async function* walkMatching<View>(source: Source<View>, filter: QueueFilter): AsyncGenerator<View> {
  for await (const row of walk(source, null, Number.POSITIVE_INFINITY)) {
    if (row !== null && isMatching(row, filter)) yield row.view;
  }
}

/** Yields null when the bound is reached. */
async function* walk<View>(
  source: Source<View>,
  from: PageCursor | null,
  lookedAtMax = scannedMax,
): AsyncGenerator<Waiting<View> | null> {
  let after = from;
  for (let scanned = 0; ; ) {
    const rows = await source(after, scanPage);
    for (const row of rows) {
      if (scanned === lookedAtMax) return void (yield null);
      scanned += 1;
      yield row;
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < scanPage) return;
    after = { createdAt: last.cursor.createdAt, id: last.cursor.id };
  }
}

function isMatching<View>({ cursor, tenant, cause }: Waiting<View>, filter: QueueFilter): boolean {
  return (
    (filter.tenant ?? tenant) === tenant &&
    (filter.operation ?? cause.operation) === cause.operation &&
    (filter.effect ?? cause.name) === cause.name &&
    (filter.errorCode ?? cause.errorCode) === cause.errorCode &&
    (filter.notAfter === undefined || cursor.createdAt <= filter.notAfter) &&
    (filter.after === undefined || cursor.createdAt > filter.after)
  );
}

function checkedPage({ limit = 50, from = null }: PageRequest) {
  if (!Number.isInteger(limit) || limit < 1 || limit > 1_000) {
    throw new TypeError(`limit must be a whole number from 1 to 1000 (got ${limit})`);
  }
  const start = from === null ? null : parseCursor(from);
  if (from !== null && start === null) throw new TypeError("from must be the `next` of a page");
  return { limit, start };
}

/** @throws {TypeError} for an invalid limit or cursor. */
export async function readPage<View>(
  source: Source<View>,
  filter: QueueFilter,
  request: PageRequest,
): Promise<Page<View>> {
  const { limit, start } = checkedPage(request);
  const items: View[] = [];
  let last = start;
  for await (const row of walk(source, start)) {
    // A row beyond the limit, or the bound: there is a next page.
    if (row === null || items.length === limit) return { items, next: last && cursorText(last) };
    if (isMatching(row, filter)) items.push(row.view);
    last = row.cursor;
  }
  return { items, next: null };
}

/** All matches up to the bound; `more`: there may be others. */
export async function readAll<View>(
  source: Source<View>,
  filter: QueueFilter,
): Promise<{ readonly items: readonly View[]; readonly more: boolean }> {
  const items: View[] = [];
  for await (const row of walk(source, null)) {
    if (row === null) return { items, more: true };
    if (isMatching(row, filter)) items.push(row.view);
  }
  return { items, more: false };
}

export async function takeCensus(
  sources: readonly Source<unknown>[],
  filter: QueueFilter,
  now: number,
): Promise<Census> {
  const causes = new Map<string, Cause>();
  const tenants = new Map<string | null, number>();
  const ages = [...ageBoundsMs, 0].map(() => 0);
  let count = 0;
  let more = false;
  let oldest: number | null = null;
  for (const source of sources) {
    for await (const row of walk(source, null)) {
      if (row === null) {
        more = true;
        break;
      }
      if (!isMatching(row, filter)) continue;
      const at = row.cursor.createdAt;
      count += 1;
      oldest = Math.min(oldest ?? at, at);
      tenants.set(row.tenant, (tenants.get(row.tenant) ?? 0) + 1);
      const bound = ageBoundsMs.findIndex((ms) => now - at <= ms);
      const bucket = bound === -1 ? ageBoundsMs.length : bound;
      ages[bucket] = (ages[bucket] ?? 0) + 1;
      addCause(causes, row.cause, at);
    }
  }
  return {
    now: isoTime(now),
    count,
    more,
    oldestAt: oldest === null ? null : isoTime(oldest),
    causes: [...causes.values()].sort((left, right) => right.count - left.count),
    ages,
    tenants: [...tenants]
      .map(([tenant, ofTenant]) => ({ tenant, count: ofTenant }))
      .sort((left, right) => right.count - left.count),
  };
}

function addCause(causes: Map<string, Cause>, cause: Waiting<unknown>["cause"], at: number): void {
  const id = JSON.stringify([cause.kind, cause.operation, cause.name, cause.errorCode]);
  const known = causes.get(id);
  const time = isoTime(at);
  causes.set(id, {
    ...cause,
    count: (known?.count ?? 0) + 1,
    oldestAt: known !== undefined && known.oldestAt < time ? known.oldestAt : time,
    newestAt: known !== undefined && known.newestAt > time ? known.newestAt : time,
  });
}
