/** What must hold after a failover, judged by the replies to callers, by the tables and by the other side's ledger. */
import type { Receiver } from "../../faults/outbox-receiver.ts";
import type { PrivatePostgres } from "../../support/private-postgres.ts";
import { until } from "../../support/until.ts";
import type { Client } from "./client.ts";
import type { Ack, KeyOf } from "./client-process.ts";
import type { Mode, Ran } from "./work.ts";

/** One thing that must not be, with the invariant that it breaks. */
export interface Violation {
  readonly invariant: string;
  readonly seen: string;
}

interface BusinessRow {
  readonly key: string;
  readonly mode: Mode;
  readonly record: string;
  readonly token: string;
}

/** The first phase of `resume`. */
interface ReservedRow {
  readonly key: string;
  readonly record: string;
}

interface RecordRow {
  readonly key: string;
  readonly id: string;
  readonly state: string;
}

/** The tables, for the keys of one name and round. */
interface Tables {
  readonly business: ReadonlyMap<string, readonly BusinessRow[]>;
  readonly reserved: ReadonlyMap<string, readonly ReservedRow[]>;
  readonly records: ReadonlyMap<string, RecordRow>;
  /** Names of what was enqueued. */
  readonly outbox: readonly { readonly key: string; readonly record: string; readonly state: string }[];
}

export interface Round {
  readonly server: PrivatePostgres;
  readonly receiver: Receiver;
  readonly round: string;
  /** All of one name. */
  readonly clients: readonly Client[];
}

/** Answers of the round by key. All of a key must be one answer. */
function acksByKey({ clients, round }: Round): ReadonlyMap<string, readonly Ack[]> {
  return Map.groupBy(
    clients.flatMap((client) => client.acksOf(round)),
    ({ ack }) => ack,
  );
}

function prefixOf({ clients, round }: Round): string {
  return `${clients[0]?.settings.name}-${round}-`;
}

async function readTables(scene: Round): Promise<Tables> {
  const { server } = scene;
  const like = [`${prefixOf(scene)}%`];
  const business = await server.admin<BusinessRow>(
    "select key, mode, record::text, replace(token, '-', '') as token from business where key like $1",
    like,
  );
  const records = await server.admin<RecordRow>(
    "select key, id::text, state from latchkey.records where key like $1",
    like,
  );
  const reserved = await server.admin<ReservedRow>(
    "select key, record::text from reserved where key like $1",
    like,
  );
  const outbox = await server.admin<Tables["outbox"][number]>(
    "select key, record_id::text as record, state from latchkey.outbox where key like $1",
    like,
  );
  return {
    business: Map.groupBy(business, ({ key }) => key),
    reserved: Map.groupBy(reserved, ({ key }) => key),
    records: new Map(records.map((row) => [row.key, row])),
    outbox,
  };
}

export interface Judgement {
  /** Replies to callers against what is there. Where answers may be lost, these are counted. */
  readonly answers: readonly Violation[];
  /** What the other side has seen. Where records may be lost, these are counted. */
  readonly effects: readonly Violation[];
  /** What is there, by itself, and whose fences were given out: whatever was lost, these hold. */
  readonly state: readonly Violation[];
}

export async function judge(scene: Round): Promise<Judgement> {
  const tables = await readTables(scene);
  const ran = scene.clients.flatMap((client) =>
    client.read().ran.filter((one) => one.ran.startsWith(prefixOf(scene))),
  );
  return {
    answers: [...acksByKey(scene).values()].flatMap((one) => lostAnswers(one, tables)),
    effects: doubleEffects(ran, scene.receiver),
    state: [
      ...doubleRows(tables),
      ...splitTransactions(tables),
      ...repeatedSteps(tables),
      ...reusedFences(ran),
    ],
  };
}

/** Everything that a lost answer, a double effect or a reused fence would leave behind. */
export async function violations(scene: Round): Promise<readonly Violation[]> {
  const { answers, effects, state } = await judge(scene);
  return [...answers, ...effects, ...state];
}

/** The keys of answers that a table does not bear out, whichever way. */
function lostAnswers(acks: readonly Ack[], { business, records }: Tables): readonly Violation[] {
  const [first] = acks;
  if (first === undefined) return [];
  const { ack: key, mode, record, by } = first;
  const differing = acks.find((other) => other.by !== by || other.record !== record);
  if (differing !== undefined) {
    return [{ invariant: "I3", seen: `${key}: callers got ${show(first)} and ${show(differing)}` }];
  }
  const row = records.get(key);
  const final = row?.state === "completed" || (mode === "lease" && row?.state === "failed");
  if (row?.id !== record || !final) {
    const seen = `${key}: a caller got ${show(first)}; its record is ${row === undefined ? "not there" : `${row.id} ${row.state}`}`;
    return [{ invariant: "I15", seen }];
  }
  const rows = business.get(key) ?? [];
  if (mode !== "lease" && rows[0]?.token !== by) {
    return [{ invariant: "I15", seen: `${key}: a caller got ${show(first)}; its business row is not there` }];
  }
  return [];
}

function show({ kind, record, by }: Ack): string {
  return `${kind} of record ${record} by ${by}`;
}

function doubleRows({ business }: Tables): readonly Violation[] {
  return [...business.values()]
    .filter((rows) => rows.length > 1)
    .map((rows) => ({ invariant: "I1", seen: `${rows[0]?.key}: ${rows.length} business rows` }));
}

/** Under `transaction`, business row, record and outbox row are there together or not at all. */
function splitTransactions({ business, records, outbox }: Tables): readonly Violation[] {
  const together = (key: string) => [
    (business.get(key) ?? []).length,
    records.get(key)?.state === "completed" ? 1 : 0,
    outbox.filter((row) => row.key === key).length,
  ];
  const keys = new Set([...business.keys(), ...records.keys(), ...outbox.map(({ key }) => key)]);
  return [...keys]
    .filter((key) => key.includes("-transaction-") && new Set(together(key)).size > 1)
    .map((key) => ({
      invariant: "I9",
      seen: `${key}: business rows, completed records and outbox rows are ${together(key).join(", ")}`,
    }));
}

function reusedFences(ran: readonly Ran[]): readonly Violation[] {
  const byFence = Map.groupBy(ran, ({ record, attempt, token }) => `${record} ${attempt} ${token}`);
  return [...byFence]
    .filter(([, runs]) => runs.length > 1)
    .map(([fence, runs]) => ({
      invariant: "I13",
      seen: `${runs[0]?.ran}: ${runs.length} runs under fence ${fence}`,
    }));
}

/** A finished phase never runs again, and what follows it is of the same life. */
function repeatedSteps({ reserved, business }: Tables): readonly Violation[] {
  return [...reserved].flatMap(([key, rows]) => {
    const of = new Set([...rows, ...(business.get(key) ?? [])].map(({ record }) => record));
    if (rows.length === 1 && of.size === 1) return [];
    return [
      { invariant: "I10", seen: `${key}: its first phase ran ${rows.length} times, in ${of.size} lives` },
    ];
  });
}

/**
 * A handler that began under a lease is never begun in another life, and calls always have the same key. An attempt of
 * `resume` that has finished no step leaves nothing behind, so it may be another life the next time.
 */
function doubleEffects(ran: readonly Ran[], receiver: Receiver): readonly Violation[] {
  const leased = ran.filter(({ mode }) => mode !== "transaction");
  return [...Map.groupBy(leased, (one) => one.ran)].flatMap(([key, runs]) => {
    const lives = runs[0]?.mode === "lease" ? new Set(runs.map(({ record }) => record)).size : 1;
    const name = runs[0]?.mode === "lease" ? `lease:${key}` : `charge:${key}`;
    const references = new Set(receiver.arrivalsOf(name).map(({ reference }) => reference)).size;
    const effects = receiver.effectsOf(name);
    const found: Violation[] = [];
    if (lives > 1) found.push({ invariant: "I1", seen: `${key}: ${lives} lives have begun` });
    if (references > 1) found.push({ invariant: "I7", seen: `${name} was sent under ${references} keys` });
    if (effects > 1) found.push({ invariant: "I1", seen: `${name} has happened ${effects} times` });
    return found;
  });
}

/** Keys of the round that somebody has an answer to. */
export function answeredKeys(scene: Round): readonly KeyOf[] {
  const firsts = [...acksByKey(scene).values()].flatMap(([first]) => first ?? []);
  return firsts.map(({ mode, ack: key }) => ({ mode, key }));
}

/** Submitted once more, every key must give the same answer again; and never by running. */
export async function auditViolations(scene: Round): Promise<readonly Violation[]> {
  const acks = acksByKey(scene);
  const again = (await scene.clients[0]?.audit(answeredKeys(scene))) ?? [];
  return again.flatMap((second) => {
    const first = acks.get(second.ack)?.[0];
    if (
      first !== undefined &&
      second.kind === "replay" &&
      second.by === first.by &&
      second.record === first.record
    ) {
      return [];
    }
    const before = first === undefined ? "nothing" : show(first);
    return [{ invariant: "I3", seen: `${second.ack}: callers got ${before}, and later ${show(second)}` }];
  });
}

/** Until nothing is under way any more. The claim of a delivery that nobody ends is held for twelve seconds. */
export async function untilTidy(scene: Pick<Round, "server" | "receiver">): Promise<void> {
  const found = { left: [] as readonly string[] };
  const tidy = async () => {
    found.left = await untidied(scene);
    return found.left.length === 0;
  };
  await until(tidy, { what: "nothing is left to do", timeoutMs: 60_000, intervalMs: 100 }).catch((cause) => {
    const violations = found.left.map((seen) => ({ invariant: "L1, L2, L3", seen }));
    throw new Error(violations.map(({ invariant, seen }) => `${invariant}: ${seen}`).join("\n  "), { cause });
  });
}

/** Every outbox row is delivered, once for the other side, and no record and no lease is left open. */
async function untidied({
  server,
  receiver,
}: Pick<Round, "server" | "receiver">): Promise<readonly string[]> {
  const open = await server.admin<{ what: string }>(
    `select 'outbox row ' || key || ' is ' || state as what from latchkey.outbox where state <> 'delivered'
     union all select 'record ' || key || ' is ' || state from latchkey.records
       where state not in ('completed', 'failed')
     union all select 'lease of ' || key from latchkey.leases`,
  );
  const delivered = await server.admin<{ name: string }>(
    "select 'notice:' || key as name from latchkey.outbox where state = 'delivered'",
  );
  const wrong = delivered.filter(({ name }) => receiver.effectsOf(name) !== 1);
  return [
    ...open.map(({ what }) => what),
    ...wrong.map(({ name }) => `${name} has happened ${receiver.effectsOf(name)} times`),
  ];
}
