/** One epoch: servers and clients begin anew, things break, everything comes to rest, and what was seen is judged and dropped. */
import type { PostgresVersion } from "../../support/postgres-binaries.ts";
import { type Arena, openArena } from "./arena.ts";
import { breakThings, type ChaosPlan, type ChaosReport } from "./chaos.ts";
import { type Observed, type Row, textOf, violationsOf } from "./check.ts";
import { Clients } from "./clients.ts";
import { type Drained, type DrainSettings, drain, NotAtRest } from "./drain.ts";
import { ClientLog, isAnswer, type KeyName, type Route } from "./history.ts";
import { agent } from "./http.ts";
import type { Plant } from "./plants.ts";
import { ServerDied } from "./servers.ts";

export interface EpochSettings {
  readonly seed: bigint;
  /** Of its keys. */
  readonly number: number;
  readonly version: PostgresVersion;
  readonly servers: number;
  readonly clients: number;
  readonly pauseMs: number;
  readonly leaseMs: number;
  readonly chaos: ChaosPlan;
  readonly untilMs: number;
  readonly patienceMs: number;
  readonly hurries: DrainSettings["hurries"];
  readonly plant?: Plant;
  readonly routes?: readonly Route[];
}

export interface EpochReport {
  readonly chaos: ChaosReport;
  readonly reached: Readonly<Record<string, number>>;
  readonly postgres: string;
  /** Null: everything is as it must be. */
  readonly wrong: { readonly invariant: string; readonly text: string } | null;
  readonly restMs: number;
}

export async function runEpoch(settings: EpochSettings): Promise<EpochReport> {
  const { seed, version, servers, leaseMs, plant = null } = settings;
  const arena = await openArena({ seed, version, servers, leaseMs, plant });
  const postgres = arena.postgres.installation.fullVersion;
  try {
    const log = new ClientLog();
    const clients = new Clients(log, arena.places, {
      seed,
      clients: settings.clients,
      pauseMs: settings.pauseMs,
      epoch: settings.number,
      ...(settings.routes !== undefined && { routes: settings.routes }),
    });
    clients.start();
    let chaos: ChaosReport = nothing;
    try {
      chaos = await breakThings(arena, settings.chaos, seed, settings.untilMs).finally(() => clients.stop());
      const drained = await drain(arena, log, settings);
      const [first] = violationsOf(await observe(arena, log, drained));
      const wrong = first === undefined ? null : { invariant: first.invariant, text: textOf(first, log) };
      return { chaos, reached: reachedIn(arena, log, drained), postgres, wrong, restMs: drained.ms };
    } catch (error) {
      const wrong = await wrongOf(error, arena, log);
      return { chaos, reached: {}, postgres, wrong, restMs: 0 };
    }
  } finally {
    agent.destroy();
    await arena.close();
  }
}

const nothing: ChaosReport = { faults: {}, cycles: 0, postgresKills: 0, serverKills: 0 };

/** @throws whatever is no failure of liveness */
async function wrongOf(
  error: unknown,
  arena: Arena,
  log: ClientLog,
): Promise<NonNullable<EpochReport["wrong"]>> {
  if (error instanceof ServerDied) return { invariant: "L5", text: `L5: ${error.message}` };
  if (!(error instanceof NotAtRest)) throw error;
  const { invariant, message: what, key: name } = error;
  const kept = name === null ? [] : await keptOf(arena, name);
  return { invariant, text: [textOf({ invariant, what, name }, log), ...kept].join("\n") };
}

/** What the store has of a key. */
async function keptOf({ query }: Arena, { route, tenant, key }: KeyName): Promise<readonly string[]> {
  const of = "where tenant = $1 and scope = $2 and key = $3";
  const rows = await query<{ row: unknown }>(
    `select json_build_array('record', state, attempt, recovery_point, last_error_code, reconcile_after) as row
      from latchkey.records ${of}
    union all select json_build_array('lease', attempt, locked_until, clock_timestamp()) from latchkey.leases ${of}
    union all select json_build_array('step', name, state, generation, sends) from latchkey.steps ${of}
    union all select json_build_array('effect', aggregatetype, state, attempt, sends, returns, last_error_code,
      locked_until, available_at) from latchkey.outbox ${of}`,
    [tenant, route, key],
  );
  return rows.map(({ row }) => `  ${JSON.stringify(row)}`);
}

async function observe(arena: Arena, log: ClientLog, { last }: Drained): Promise<Observed> {
  const { arrivals, effects } = arena.downstream;
  const dead = await arena.query<{ name: string }>(
    "select convert_from(payload, 'UTF8')::json->>'name' as name from latchkey.outbox where state = 'dead'",
  );
  const noted = await arena.query<{ name: string }>("select name from noted");
  return {
    log,
    last,
    business: await arena.query<Row>("select * from business"),
    settled: await arena.query<Row>("select * from settled"),
    noted: noted.map(({ name }) => name),
    arrivals,
    effects,
    dead: new Set(dead.map(({ name }) => name)),
  };
}

function reachedIn(arena: Arena, log: ClientLog, drained: Drained): Record<string, number> {
  const reached: Record<string, number> = {};
  const add = (what: string, count: number) => {
    if (count > 0) reached[what] = (reached[what] ?? 0) + count;
  };
  for (const name of log.keys()) {
    const answers = log.of(name).filter(({ answered }) => isAnswer(answered));
    for (const { answered } of log.of(name)) add(`answer: ${answered?.kind ?? "none"}`, 1);
    add("keys", 1);
    // Those of the checker come after the faults.
    add(
      "keys acknowledged during the faults",
      answers.some(({ process }) => process.startsWith("client")) ? 1 : 0,
    );
    const servers = new Set(answers.map(({ server }) => server));
    add("keys answered by several servers or lives of one", servers.size > 1 ? 1 : 0);
  }
  for (const line of arena.places.flatMap((place) => place.lines())) {
    if (typeof line.event !== "string") continue;
    const detail = line.resolved ?? line.because ?? line.what ?? line.errorCode ?? "";
    add(detail === "" ? line.event : `${line.event}: ${detail}`, 1);
  }
  const sends = new Map<string, number>();
  for (const { reference } of arena.downstream.arrivals)
    sends.set(reference, (sends.get(reference) ?? 0) + 1);
  add("sends repeated under their key", [...sends.values()].filter((count) => count > 1).length);
  add("requests lost before the other side", arena.downstream.lost.requests);
  add("replies of the other side lost", arena.downstream.lost.replies);
  add("unknown settled: completed", drained.settledCompleted);
  add("unknown settled: not executed", drained.settledNotExecuted);
  return reached;
}
