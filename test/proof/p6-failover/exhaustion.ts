/** More requests than connections: of the pool, where waiting duplicates must hold none, and of the server, which refuses. */
import pg from "pg";
import { createLatchkey } from "../../../packages/latchkey/src/index.ts";
import { postgresStore } from "../../../packages/latchkey/src/stores/postgres.ts";
import { type PrivatePostgres, startPostgres } from "../../support/private-postgres.ts";
import { deferred, until, within } from "../../support/until.ts";
import { auditViolations, untilTidy, type Violation, violations } from "./judge.ts";
import { prepare } from "./pair.ts";
import { ProcessGroup } from "./process-group.ts";
import { expectNone, type Section, type Stage, type Tally } from "./section.ts";
import { postgresVersionsUsed, versionOf } from "./sync-failover.ts";

const connections = 4;
const duplicates = 60;
const others = 20;
/** Of duplicates that are to get the reply that it still runs, and of those that are to get its answer. */
const waits = { short: 400, long: 20_000 };
/** A machine under load comes late. */
const graceMs = 5_000;
const runsPerServer = 2;
/**
 * Either one could fill the server. A pool that is always busy gives none of its connections back, and whoever came second
 * would be refused for as long as the first one lives.
 */
const greedy = { loops: 6, maxUses: 20 };

export const exhaustion: Section = {
  id: "exhaustion",
  what: "runs with more requests than connections",
  bound: `${duplicates} duplicates over a pool of ${connections}; 42 connections wanted of a server that has 18`,
  runs: 6,
  small: 0,
  requiredFaults: ["pool exhausted", "server out of connections"],
  requiredReached: [
    "duplicate got `in_progress` in time",
    "duplicate given the answer",
    "refused while the store was away",
  ],
  versions: postgresVersionsUsed,
  open: async () => new ExhaustionStage(),
  measured: () => [],
};

class ExhaustionStage implements Stage {
  run(number: number): Promise<Tally> {
    return number % runsPerServer === 0 ? ofPool(number) : ofServer(number);
  }

  async close(): Promise<void> {}
}

async function ofPool(number: number): Promise<Tally> {
  const server = await startPostgres({ version: versionOf(number, runsPerServer) });
  await prepare(server);
  const service = serviceOver(server.url);
  const { pool, submit, gate } = service;
  const owners = [submit("place", "held", true), submit("impatient", "hurried", true)];
  await within(service.bothInside, "both owners are inside");
  const begunMs = performance.now();
  const impatient = Promise.all(Array.from({ length: duplicates }, () => submit("impatient", "hurried")));
  const waiting = Promise.all(Array.from({ length: duplicates }, () => submit("place", "held")));
  // The owners hold two connections, so these have the one that is left for transactions, if nobody waits on it.
  const done = await Promise.all(
    Array.from({ length: others }, (_, index) => submit("place", `other-${index}`)),
  );
  const replies = await impatient;
  const tookMs = performance.now() - begunMs;
  await until(() => pool.totalCount - pool.idleCount === owners.length && pool.waitingCount === 0, {
    what: "only the owners hold connections",
    intervalMs: 1,
  });
  gate.resolve();
  const [held] = await Promise.all(owners);
  const answers = await waiting;
  const leaked = await service.close();
  const rows = await server.admin<{ count: number }>("select count(*)::int as count from business");
  const value = held?.kind === "executed" ? held.value.by : null;
  const kinds = [...new Set(replies.map(({ kind }) => kind))].join(", ");
  expectNone(`${duplicates} duplicates over a pool of ${connections}`, [
    ...unless(
      done.every(({ kind }) => kind === "executed"),
      "L4",
      "others did not run while the owners were inside",
    ),
    ...unless(kinds === "in_progress", "L4", `impatient duplicates got ${kinds}`),
    ...unless(
      tookMs < waits.short + graceMs,
      "L4",
      `impatient duplicates waited for ${Math.round(tookMs)} ms`,
    ),
    ...unless(
      answers.every((one) => one.kind === "replay" && one.value.by === value),
      "L4",
      "a duplicate that waited has another answer",
    ),
    ...unless(leaked === 0, "L5", `${leaked} connections leaked`),
    ...unless(rows[0]?.count === others + owners.length, "I1", `${rows[0]?.count} business rows`),
  ]);
  await server.stop();
  return {
    faults: { "pool exhausted": 1 },
    reached: {
      "duplicate got `in_progress` in time": replies.length,
      "duplicate given the answer": answers.length,
    },
    sums: {},
  };
}

function unless(holds: boolean, invariant: string, seen: string): readonly Violation[] {
  return holds ? [] : [{ invariant, seen }];
}

/** Two operations over a small pool; those who are to stay inside wait there at the gate. */
function serviceOver(url: string) {
  const pool = new pg.Pool({ connectionString: url, max: connections });
  pool.on("error", () => {});
  const store = postgresStore({ pool });
  const latchkey = createLatchkey({ store });
  const operations = {
    place: latchkey.operation("place", { waitMs: waits.long }),
    impatient: latchkey.operation("impatient", { waitMs: waits.short }),
  };
  const gate = deferred();
  const bothInside = deferred();
  let inside = 0;
  const submit = (name: keyof typeof operations, key: string, stays = false) =>
    latchkey.run(operations[name], { tenant: "t", key, input: key }, async ({ tx, attempt }) => {
      await tx.query("insert into business (key, token) values ($1, $2)", [key, attempt.fence.token]);
      if (stays) {
        inside += 1;
        if (inside === 2) bothInside.resolve();
        await gate.promise;
      }
      return { by: attempt.fence.token };
    });
  return {
    pool,
    submit,
    gate,
    bothInside: bothInside.promise,
    /** Answers how many connections were still out. */
    async close(): Promise<number> {
      await store.close();
      const leaked = pool.totalCount - pool.idleCount;
      await pool.end();
      return leaked;
    },
  };
}

async function ofServer(number: number): Promise<Tally> {
  const conf = { max_connections: 22, superuser_reserved_connections: 4 };
  const server = await startPostgres({ version: versionOf(number, runsPerServer), conf });
  await prepare(server);
  const crew = await ProcessGroup.open(await ordinaryUrl(server), [greedy, greedy]);
  const round = `x${number}`;
  crew.begin(round);
  await Promise.all(crew.clients.map((client) => client.untilReported("threw store-unavailable", 5)));
  await crew.untilAnswered(round, 3);
  await crew.rest();
  const what = `a server with too few connections, run ${number}`;
  const scene = { server, receiver: crew.receiver, round, clients: crew.clients };
  expectNone(what, await violations(scene));
  expectNone(what, await auditViolations(scene));
  await untilTidy(scene);
  for (const client of crew.clients.slice(1)) {
    await until(async () => (await client.busy()) === 0, { what: "no connection is leaked" });
  }
  const reached = crew.reached();
  await crew.close();
  await server.stop();
  return { faults: { "server out of connections": 1 }, reached, sums: {} };
}

/** Of somebody for whom no connections are reserved. */
async function ordinaryUrl(server: PrivatePostgres): Promise<string> {
  await server.admin(`create role service login;
    grant usage on schema latchkey to service;
    grant all on all tables in schema latchkey, public to service;
    grant all on all sequences in schema latchkey to service`);
  const url = new URL(server.url);
  url.username = "service";
  return url.href;
}
