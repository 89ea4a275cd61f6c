/** After the faults: everything must come to rest, and every key be answered, without a restart of anybody. */
import { setTimeout as pause } from "node:timers/promises";
import { until } from "../../support/until.ts";
import { type Draw, drawFrom, seedOf } from "../harness/seeded.ts";
import type { Arena } from "./arena.ts";
import { otherThan, send } from "./clients.ts";
import { type Body, type ClientLog, type ClientReply, isAnswer, type KeyName, textOfKey } from "./history.ts";
import { type Operator, openOperator } from "./operator.ts";
import type { Place } from "./servers.ts";

export interface DrainSettings {
  readonly seed: bigint;
  /** How long each thing may take. */
  readonly patienceMs: number;
  /** What is cut short by hand. Claims of dead dispatchers last 12 seconds. */
  readonly hurries: "pauses" | "claims, too";
}

export interface Drained {
  /** The last answer to each key, by its text. */
  readonly last: ReadonlyMap<string, ClientReply>;
  /** What the operator has decided. */
  readonly settledCompleted: number;
  readonly settledNotExecuted: number;
  /** How long it took until everything was at rest. */
  readonly ms: number;
}

/** Something did not come to rest: a failure of liveness. */
export class NotAtRest extends Error {
  override readonly name = "NotAtRest";
  readonly invariant: string;
  /** Null: it is about no key alone. */
  readonly key: KeyName | null;

  constructor(invariant: string, cause: unknown, key: KeyName | null = null) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.invariant = invariant;
    this.key = key;
  }
}

export async function drain(arena: Arena, log: ClientLog, settings: DrainSettings): Promise<Drained> {
  const over = new AbortController();
  arena.downstream.behave();
  const hurrying = hurry(arena, settings.hurries, over.signal);
  try {
    return await comeToRest(arena, log, settings);
  } finally {
    over.abort();
    await hurrying;
  }
}

async function comeToRest(arena: Arena, log: ClientLog, settings: DrainSettings): Promise<Drained> {
  const beganMs = performance.now();
  const { patienceMs } = settings;
  const draw = drawFrom(seedOf(settings.seed, 3));
  const operator = openOperator(arena, log);
  const last = new Map<string, ClientReply>();
  const ask = async (name: KeyName) => {
    const reply = await finalAnswer({ arena, log, operator, draw }, name, patienceMs);
    last.set(textOfKey(name), reply);
  };
  try {
    await expect("L5", () => serversAnswer(arena), "every server answers, and runs nothing", patienceMs);
    await expect(
      "L1",
      () => leasesAreOver(arena),
      "no lease is left of handlers that have ended",
      patienceMs,
    );
    await inParallel(log.keys(), 6, ask);
    await expect("L1, L2", () => isAtRest(arena), "records and effects are at rest", patienceMs);
    const ms = performance.now() - beganMs;
    // Once more, at whichever server: what was answered stays so.
    await inParallel(log.keys(), 6, ask);
    await operator.close();
    await expect("L5", () => nothingLeaks(arena), "no connection is leaked", patienceMs);
    return { last, ...operator.settled, ms };
  } finally {
    await operator.close();
  }
}

async function expect(
  invariant: string,
  condition: () => Promise<boolean>,
  what: string,
  timeoutMs: number,
): Promise<void> {
  await until(condition, { what, timeoutMs, intervalMs: 50 }).catch((error: unknown) => {
    throw new NotAtRest(invariant, error);
  });
}

async function inParallel<T>(
  all: readonly T[],
  width: number,
  act: (one: T) => Promise<void>,
): Promise<void> {
  const left = [...all];
  const work = async () => {
    for (let one = left.pop(); one !== undefined; one = left.pop()) await act(one);
  };
  await Promise.all(Array.from({ length: width }, work));
}

async function serversAnswer({ places }: Arena): Promise<boolean> {
  const all = await Promise.all(places.map((place) => place.health()));
  return all.every(({ running, waiting }) => running === 0 && waiting === 0);
}

/** No attempt of a handler's is left that could still write; what became of them is then for its lease's end to say. */
async function leasesAreOver(arena: Arena): Promise<boolean> {
  const [row] = await arena.query<{ count: number }>(
    `select count(*)::int as count from latchkey.leases
      where operation = 'grab' and locked_until > clock_timestamp()`,
  );
  return row?.count === 0;
}

interface Asking {
  readonly arena: Arena;
  readonly log: ClientLog;
  readonly operator: Operator;
  readonly draw: Draw;
}

/** Asks until there is an answer, with whichever body the key belongs to. */
async function finalAnswer(
  { arena, log, operator, draw }: Asking,
  name: KeyName,
  timeoutMs: number,
): Promise<ClientReply> {
  let body: Body = log.of(name).find((entry) => entry.body !== null)?.body ?? "a";
  let place: Place = draw.pick(arena.places);
  let reply: ClientReply | null = null;
  const ask = async () => {
    reply = await send(log, place, "checker", { name, body, workMs: 0, timeoutMs: 5_000 });
    if (reply.answered.kind === "misuse") body = otherThan(body);
    if (reply.answered.kind === "unknown" && name.route === "grab") await operator.settle(name);
    place = draw.pick(arena.places);
    return isAnswer(reply.answered) ? reply : undefined;
  };
  const what = `${textOfKey(name)} is answered`;
  const found = await until(ask, { what, timeoutMs, intervalMs: 200 }).catch((error: unknown) => {
    const answered: ClientReply["answered"] | undefined = reply?.answered;
    throw new NotAtRest("L1", new Error(`never answered; last: ${answered?.kind}`, { cause: error }), name);
  });
  if (found === undefined) throw new TypeError("until gives what is true");
  return found;
}

/**
 * Cuts pauses short, until it is stopped: those between two tries double with each, and here there are many tries; who is
 * claimed for reconciliation by a dead server waits a minute.
 */
async function hurry(arena: Arena, hurries: DrainSettings["hurries"], over: AbortSignal): Promise<void> {
  while (!over.aborted) {
    await arena.query(
      "update latchkey.records set reconcile_after = clock_timestamp() where reconcile_after > clock_timestamp()",
    );
    if (hurries === "claims, too") {
      await arena.query(
        `update latchkey.outbox set locked_until = clock_timestamp()
          where state = 'claimed' and claimed_at < clock_timestamp() - interval '2 seconds'`,
      );
    }
    await pause(500, undefined, { signal: over }).catch(() => {});
  }
}

async function isAtRest(arena: Arena): Promise<boolean> {
  const left = await arena.query<object>(
    `(select 'record' as what, operation as name, tenant, key, state, attempt, last_error_code as error
      from latchkey.records where state not in ('completed', 'failed') limit 5)
    union all
    (select 'effect', aggregatetype, tenant, key, state, attempt, last_error_code
      from latchkey.outbox where state not in ('delivered', 'dead') limit 5)`,
  );
  if (left.length > 0) throw new Error(left.map((row) => JSON.stringify(row)).join("\n"));
  return true;
}

interface Backend {
  readonly name: string;
  readonly state: string;
  readonly count: number;
}

/** Every backend belongs to a server that lives, is in its pool, and idle; every server can take all but the one that listens. */
async function nothingLeaks(arena: Arena): Promise<boolean> {
  const backends = await arena.query<Backend>(`select application_name as name, state, count(*)::int as count
    from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid() group by 1, 2`);
  const busy = backends.filter(({ state }) => state !== "idle");
  if (busy.length > 0) throw new Error(`not idle: ${JSON.stringify(busy)}`);
  for (const place of arena.places) {
    const { total, idle, waiting } = await place.health();
    const own = backends.find(({ name }) => name === place.name)?.count ?? 0;
    // One receives hints.
    if (waiting > 0 || total - idle > 1 || own !== total) {
      throw new Error(`${place.name}: pool ${total}, idle ${idle}, waiting ${waiting}; backends ${own}`);
    }
  }
  const foreign = backends.filter(({ name }) => !arena.places.some((place) => place.name === name));
  if (foreign.length > 0) throw new Error(`nobody's: ${JSON.stringify(foreign)}`);
  return true;
}
