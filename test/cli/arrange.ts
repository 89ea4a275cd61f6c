/** Records in every state that people look at, in a Postgres database of their own, and the command line on it. */
import { join } from "node:path";
import pg from "pg";
import { run } from "../../packages/latchkey/src/cli/run.ts";
import { downstreamKey } from "../../packages/latchkey/src/effects/downstream-key.ts";
import { guardOf, type InProgressRecord, type RecordKey } from "../../packages/latchkey/src/engine/record.ts";
import { encodeAnswer } from "../../packages/latchkey/src/operations/answer.ts";
import { systemPorts } from "../../packages/latchkey/src/ports.ts";
import type { Owner } from "../../packages/latchkey/src/stores/journal.ts";
import {
  migratePostgres,
  type PgTx,
  type PostgresStore,
  postgresStore,
} from "../../packages/latchkey/src/stores/postgres.ts";
import { freshDatabase } from "../support/shared-postgres.ts";

const repository = join(import.meta.dirname, "../..");
const { random, clock } = systemPorts;

export interface CommandOutput {
  readonly exitCode: number;
  readonly out: string;
  readonly errors: string;
}

export function latchkey(url: string, ...args: readonly string[]): Promise<CommandOutput> {
  return latchkeyUnder({ DATABASE_URL: url }, ...args);
}

export async function latchkeyUnder(
  env: Readonly<Record<string, string>>,
  ...args: readonly string[]
): Promise<CommandOutput> {
  const out: string[] = [];
  const errors: string[] = [];
  const exitCode = await run({
    args,
    env,
    cwd: repository,
    print: (text) => out.push(text),
    complain: (text) => errors.push(text),
  });
  return { exitCode, out: out.join("\n"), errors: errors.join("\n") };
}

export interface Place {
  readonly url: string;
  readonly pool: pg.Pool;
  readonly store: PostgresStore<PgTx<pg.Pool>>;
  close(): Promise<void>;
}

export async function openPlace(): Promise<Place> {
  const database = await freshDatabase();
  const pool = new pg.Pool({ connectionString: database.url, max: 4 });
  pool.on("error", () => {});
  await migratePostgres(pool);
  const store = postgresStore({ pool });
  return {
    url: database.url,
    pool,
    store,
    async close() {
      await store.close();
      await pool.end();
      await database.drop();
    },
  };
}

export const bytes = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
const terms = { leaseMs: 60_000, leaseEnd: "resume", attemptsMax: 5, abandonAfterMs: 3_600_000 } as const;
const retention = { retentionMs: 3_600_000, forgetAfterMs: 7_200_000 };

export function keyOf(key: string, overrides: Partial<RecordKey> = {}): RecordKey {
  return { tenant: "account-1", scope: "payments.charge", key, ...overrides };
}

/** A life that has begun. `input`: null for an operation that does not own its work. */
export async function begin(
  { store }: Place,
  key: RecordKey,
  input: Uint8Array | null = bytes({ amount: 500 }),
): Promise<InProgressRecord> {
  const life = {
    ...key,
    id: random.uuid(clock.wallMs()),
    // Of a scope with a path: what is before the path.
    operation: key.scope === "*" ? "payments.charge" : key.scope.replace(/ .*/u, ""),
    fingerprint: { version: 1, digest: new Uint8Array(32).fill(7) },
    principal: null,
    fence: { attempt: 1, token: random.token() },
    ...(input !== null && { input }),
  };
  const record = await store.create(life, null, terms);
  if (record === null) throw new Error("the key must be free");
  return record;
}

async function addPhase(place: Place, owner: Owner, name: string, result: unknown): Promise<void> {
  const outcome = await place.store.transactions?.phase(
    { owner, isolation: null, idleLimitMs: 30_000 },
    async () => ({
      end: "commit",
      value: null,
      step: { name, position: 0, version: "1", result: bytes(result) },
      completes: null,
      effects: [],
    }),
  );
  if (outcome?.kind !== "committed") throw new Error(`the phase was ${outcome?.kind}`);
}

export async function sendCall(
  { store }: Place,
  owner: Owner,
  name: string,
  input: Uint8Array = bytes({ amount: 500 }),
): Promise<string> {
  const effect = "provider.charge";
  const key = downstreamKey({ recordId: owner.id, step: name, effect, index: 0, generation: 0 });
  const intent = { name, position: 1, version: "1", effect, generation: 0, downstreamKey: key, input };
  const started = await store.journal.startCall(owner, intent);
  if (started === null) throw new Error("the owner is there");
  return key;
}

export const ownerOf = (key: RecordKey, { id, fence }: InProgressRecord): Owner => ({ key, id, fence });

export async function endInDoubt({ store }: Place, owner: Owner, errorCode = "call-in-doubt"): Promise<void> {
  const ended = await store.end(owner.key, owner.id, owner.fence, {
    event: "doubt",
    errorCode,
    reconcileAfterMs: null,
  });
  if (ended === null) throw new Error("the owner is there");
}

export async function complete({ store }: Place, owner: Owner, answer: Uint8Array): Promise<void> {
  const end = { event: "complete", answer, retention, errorCode: null } as const;
  if ((await store.end(owner.key, owner.id, owner.fence, end)) === null)
    throw new Error("the owner is there");
}

/** As it is read back: plain bytes, not Node's. */
export function jsonAnswer(status: number, body: unknown): Uint8Array {
  const headers = [["Content-Type", "application/json"]] as const;
  const answer = { status, headers, body: bytes(body), omitted: null };
  return new Uint8Array(encodeAnswer(answer, 1_000_000));
}

/** What the crash story leaves: a finished phase, then a call without a reply. */
export async function callInDoubt(place: Place, key: RecordKey) {
  const record = await begin(place, key);
  const owner = ownerOf(key, record);
  await addPhase(place, owner, "payment_recorded", { id: 7 });
  const downstream = await sendCall(place, owner, "charged");
  await endInDoubt(place, owner);
  return { id: record.id, downstream };
}

/** A worker goes on with a settled record, sends its call again, and gets no reply to that one either. */
export async function resumeIntoDoubt(place: Place, key: RecordKey): Promise<void> {
  const { record } = await place.store.read(key);
  if (record?.state !== "retryable") throw new Error("it has been settled");
  const { fingerprint } = record;
  const resumed = await place.store.takeOver(key, guardOf(record), fingerprint, random.token(), terms);
  if (resumed === null) throw new Error("nobody else takes it over");
  await sendCall(place, ownerOf(key, resumed), "charged");
  await endInDoubt(place, ownerOf(key, resumed));
}

/** A handler that did not own its work and threw. */
export async function bareDoubt(place: Place, key: RecordKey): Promise<string> {
  const record = await begin(place, key, null);
  await endInDoubt(place, ownerOf(key, record), "handler-threw");
  return record.id;
}

export async function stateOf({ store }: Place, key: RecordKey): Promise<string | null> {
  return (await store.read(key)).record?.state ?? null;
}
