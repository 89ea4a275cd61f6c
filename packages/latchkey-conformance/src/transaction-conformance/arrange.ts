/** Shared by the cases of the bridge suite. */
import assert from "node:assert/strict";
import {
  type BridgeOutcome,
  type BridgeRequest,
  type BridgeSession,
  type BridgeWork,
  type SqlRow,
  type SqlStatement,
  type SqlValue,
  systemPorts,
} from "latchkey";
import { pause } from "latchkey/internal";
import type { BridgeContext } from "./case.ts";

/** The suite's own tables; `once` refuses a second equal row at COMMIT, `slow` makes COMMIT sleep. */
const tables = [
  "create table if not exists latchkey_rows (row text not null)",
  `create table if not exists latchkey_once (
    row text not null constraint latchkey_once_row unique deferrable initially deferred)`,
  "create table if not exists latchkey_slow (seconds double precision not null)",
  `create or replace function latchkey_sleep() returns trigger language plpgsql as
    $$ begin perform pg_sleep(new.seconds); return null; end $$`,
  `do $$ begin
    if not exists (select from pg_trigger where tgname = 'latchkey_slow_commit') then
      create constraint trigger latchkey_slow_commit after insert on latchkey_slow
        deferrable initially deferred for each row execute function latchkey_sleep();
    end if;
  end $$`,
];

export async function makeTables({ outside }: BridgeContext): Promise<void> {
  for (const text of tables) await outside(text);
}

let rowsMade = 0;

/** A row that no other case writes. */
export function newRow(): string {
  rowsMade += 1;
  return `row-${systemPorts.random.token()}-${rowsMade}`;
}

const names = new Map<string, string>();

/** A statement with one name per text. */
export function statement(text: string, ...values: readonly SqlValue[]): SqlStatement {
  const name = names.get(text) ?? `lk_suite_${names.size + 1}`;
  names.set(text, name);
  return { name, text, values };
}

export const insertText = "insert into latchkey_rows (row) values ($1::text) returning row";

export function inserting(row: string): SqlStatement {
  return statement(insertText, row);
}

/** Fails with 22012, like the guard of a stale record. */
export const failing = statement(
  "select 1 / pg_catalog.count(*)::int as written from pg_catalog.generate_series(1, 0)",
);

const plain: BridgeRequest = { isolation: null, opening: [] };

export type Work = (session: BridgeSession<unknown>) => Promise<BridgeWork<string>>;

export function commit(closing: readonly SqlStatement[] = []): BridgeWork<string> {
  return { end: "commit", value: "value", closing };
}

/** Runs one transaction, which must end. */
export function transact(
  context: BridgeContext,
  work: Work,
  request: Partial<BridgeRequest> = {},
): Promise<BridgeOutcome<string>> {
  return inTime(context, "the transaction", context.bridge.transact({ ...plain, ...request }, work));
}

/** One complete transaction: writes `row`, then ends as `end` says. */
export function writing(
  context: BridgeContext,
  row: string,
  end: (session: BridgeSession<unknown>) => BridgeWork<string> | Promise<BridgeWork<string>>,
): Promise<BridgeOutcome<string>> {
  return transact(context, async (session) => {
    await context.execute(session.tx, insertText, [row]);
    return end(session);
  });
}

async function isThere({ outside }: BridgeContext, row: string): Promise<boolean> {
  return (await outside("select row from latchkey_rows where row = $1::text", [row])).length > 0;
}

export async function gone(context: BridgeContext, row: string, when: string): Promise<void> {
  assert.equal(await isThere(context, row), false, `nothing may be left ${when}`);
}

export async function stayed(context: BridgeContext, row: string): Promise<void> {
  assert.equal(await isThere(context, row), true, "what was committed must stay");
}

/** Asserts that the bridge works normally, and holds no connection. */
export async function works(context: BridgeContext): Promise<void> {
  const row = newRow();
  const outcome = await writing(context, row, () => commit());
  assert.equal(outcome.kind, "committed", "the next transaction must run normally");
  await stayed(context, row);
  await holdsNothing(context);
}

export async function holdsNothing(context: BridgeContext): Promise<void> {
  const what = "all connections are returned or closed";
  await until(context, what, async () => context.busyConnections() === 0);
}

export async function until(
  { patienceMs }: BridgeContext,
  what: string,
  condition: () => Promise<boolean>,
): Promise<void> {
  const { clock } = systemPorts;
  const deadline = clock.monotonicMs() + patienceMs;
  while (!(await condition())) {
    assert.ok(clock.monotonicMs() < deadline, `not reached in time: ${what}`);
    await pause(clock, 10);
  }
}

export async function inTime<T>(
  { patienceMs }: BridgeContext,
  what: string,
  promise: Promise<T>,
): Promise<T> {
  const late = Promise.withResolvers<never>();
  const cancel = systemPorts.clock.startTimer(patienceMs, () =>
    late.reject(new assert.AssertionError({ message: `${what} must not hang` })),
  );
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    cancel();
  }
}

/** Whether the error, or one that it wraps, carries this code. */
function hasCode(error: unknown, code: string): boolean {
  let current = error;
  while (current instanceof Error) {
    if ("code" in current && current.code === code) return true;
    current = current.cause ?? ("original" in current ? current.original : undefined);
  }
  return false;
}

export async function refusedWith(
  context: BridgeContext,
  code: string,
  act: () => Promise<unknown>,
  what: string,
): Promise<void> {
  await assert.rejects(
    inTime(context, what, (async () => act())()),
    (error) => hasCode(error, code),
    `${what} must be refused with ${code}`,
  );
}

/** Returns the only value of the only row. */
export function onlyValue(rows: readonly SqlRow[] | undefined): SqlValue {
  const [row, ...more] = rows ?? [];
  const values = Object.values(row ?? {});
  assert.deepEqual([more.length, values.length], [0, 1], "exactly one row with one value must be returned");
  return values[0] ?? null;
}

/** The process id of the server behind a transaction. */
export async function backendOf({ execute }: BridgeContext, tx: unknown): Promise<number> {
  return Number(onlyValue(await execute(tx, "select pg_catalog.pg_backend_pid() as pid")));
}

/** Waits until the process sleeps in `pg_sleep`. */
export function asleep(context: BridgeContext, pid: number): Promise<void> {
  const text =
    "select wait_event from pg_catalog.pg_stat_activity where pid = $1::int and wait_event = 'PgSleep'";
  return until(context, "the server sleeps", async () => (await context.outside(text, [pid])).length > 0);
}

/** Ends a server process as an operator would, and waits until it is gone. */
export async function terminate(context: BridgeContext, pid: number): Promise<void> {
  const { outside } = context;
  await outside("select pg_catalog.pg_terminate_backend($1::int) as done", [pid]);
  const text = "select pid from pg_catalog.pg_stat_activity where pid = $1::int";
  await until(context, "the server's process is gone", async () => (await outside(text, [pid])).length === 0);
}
