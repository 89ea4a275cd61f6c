/** First requests whose records are forgotten a second later, with cleaning at the same time and autovacuum on. */
import { migratePostgres } from "latchkey/postgres";
import { number, type Scale, table } from "./measure.ts";
import { runTurn, startWorkers } from "./worker.ts";

const concurrency = 4;
const schema = "churn";
/** Lines of the report. */
const samples = 12;

export async function measureChurn(scale: Scale): Promise<string> {
  const { pool } = scale;
  await migratePostgres(pool, { schema });
  const [traffic, cleaner] = await startWorkers(scale.url, 2, concurrency);
  if (traffic === undefined || cleaner === undefined) throw new Error("a worker is missing");
  const seconds = (scale.churnMinutes * 60) / samples;
  const lines: string[][] = [];
  for (let sample = 1; sample <= samples; sample += 1) {
    const job = { kind: "brief", schema, concurrency, seconds, bytes: 100, prefix: `${sample}` } as const;
    const [turn, batches] = await Promise.all([
      runTurn(traffic, job),
      runTurn(cleaner, { kind: "clean", schema, seconds, pauseMs: 100, batchesMax: Number.MAX_SAFE_INTEGER }),
    ]);
    const { rows } = await pool.query(
      `
      select n_live_tup::float as live, n_dead_tup::float as dead, autovacuum_count::int as vacuums,
        pg_total_relation_size(relid) / 1e6 as size, pg_indexes_size(relid) / 1e6 as indexes
      from pg_stat_user_tables where schemaname = $1 and relname = 'records'`,
      [schema],
    );
    const [row] = rows;
    const line = [
      `${((sample * seconds) / 60).toFixed(1)}`,
      ((turn.count * 1_000) / turn.tookMs).toFixed(0),
      turn.p50Ms.toFixed(2),
      turn.p99Ms.toFixed(2),
      batches.p50Ms.toFixed(1),
      batches.p99Ms.toFixed(1),
      number(row.live),
      number(row.dead),
      `${row.vacuums}`,
      Number(row.size).toFixed(0),
      Number(row.indexes).toFixed(0),
    ];
    console.error(line.join(" "));
    lines.push(line);
  }
  await Promise.all([traffic.stop(), cleaner.stop()]);
  const head = [
    "minute",
    "requests/s",
    "p50 ms",
    "p99 ms",
    "batch p50 ms",
    "batch p99 ms",
    "records",
    "dead rows",
    "autovacuums",
    "table MB",
    "indexes MB",
  ];
  return table(
    `Churn: each record is forgotten a second after its creation, ${concurrency} concurrent requests:`,
    head,
    lines,
  );
}
