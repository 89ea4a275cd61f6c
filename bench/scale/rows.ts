/** Tables of different sizes in turn; and cleaning of the largest, with and without traffic. */
import { dueOf, fill, removeNew } from "./fill.ts";
import { alternate, measure, measuredCells, measuredHead, number, type Scale, table } from "./measure.ts";
import { type Job, runTurn, startWorkers } from "./worker.ts";

const concurrency = 8;
const kinds = ["first", "replay"] as const;
const schemaOf = (rows: number) => `rows_${rows}`;
let turns = 0;

const jobOf = (kind: (typeof kinds)[number], rows: number, seconds: number): Job => {
  turns += 1;
  return { kind, schema: schemaOf(rows), rows, concurrency, seconds, bytes: 100, prefix: `${kind}-${turns}` };
};

export async function measureRows(scale: Scale): Promise<string> {
  const { pool, rows: sizes, rounds, seconds } = scale;
  for (const rows of sizes) {
    const beganMs = performance.now();
    await fill(pool, schemaOf(rows), rows);
    console.error(`${number(rows)} records in ${((performance.now() - beganMs) / 1_000).toFixed(0)} s`);
  }
  await pool.query("checkpoint");
  const workers = await startWorkers(scale.url, 1, concurrency);
  const cells = kinds.flatMap((kind) => sizes.map((rows) => ({ kind, rows })));
  const measured = await alternate(cells, rounds, async ({ kind, rows }) => {
    const turn = await measure(scale, workers, () => jobOf(kind, rows, seconds));
    await removeNew(pool, schemaOf(rows));
    return turn;
  });
  scale.keep(
    "rows",
    [...measured].map(([cell, turn]) => ({ ...cell, ...turn })),
  );
  const [smallest] = sizes;
  const rateOf = (kind: string, rows: number | undefined) =>
    [...measured].find(([cell]) => cell.kind === kind && cell.rows === rows)?.[1].p50Ms ?? Number.NaN;
  const lines = [...measured].map(([{ kind, rows }, turn]) => [
    kind === "first" ? "first request" : "replay",
    number(rows),
    ...measuredCells(turn),
    (rateOf(kind, rows) / rateOf(kind, smallest)).toFixed(2),
  ]);
  const head = ["", "records", ...measuredHead, `p50 relative to ${number(smallest ?? 0)}`];
  const byRows = table(`Number of records, ${concurrency} concurrent requests:`, head, lines);
  await Promise.all(workers.map((worker) => worker.stop()));
  return `${byRows}\n\n${await measureCleaning(scale)}`;
}

async function measureCleaning(scale: Scale): Promise<string> {
  const rows = Math.max(...scale.rows);
  const { seconds } = scale;
  const schema = schemaOf(rows);
  const [traffic, cleaner] = await startWorkers(scale.url, 2, concurrency);
  if (traffic === undefined || cleaner === undefined) throw new Error("a worker is missing");
  const clean = { kind: "clean", schema, seconds, pauseMs: 100, batchesMax: dueOf(rows) / 2_000 } as const;
  const undisturbed = await runTurn(cleaner, clean);
  await runTurn(traffic, jobOf("first", rows, seconds));
  const before = await runTurn(traffic, jobOf("first", rows, seconds));
  const [beside, during] = await Promise.all([
    runTurn(cleaner, clean),
    runTurn(traffic, jobOf("first", rows, seconds)),
  ]);
  await Promise.all([traffic.stop(), cleaner.stop()]);
  scale.keep("cleaning", {
    rows,
    batchP50Ms: beside.p50Ms,
    batchP99Ms: beside.p99Ms,
    p99Ratio: during.p99Ms / before.p99Ms,
  });
  const ms = (value: number) => (Number.isNaN(value) ? "" : value.toFixed(1));
  return table(
    `Clean-up of ${number(rows)} records, batches of 1,000 with 100 ms between them:`,
    ["", "batches", "batch p50 ms", "batch p99 ms", "first requests/s", "p99 ms"],
    [
      ["clean-up alone", `${undisturbed.count}`, ms(undisturbed.p50Ms), ms(undisturbed.p99Ms), "", ""],
      ["traffic alone", "", "", "", ((before.count * 1_000) / before.tookMs).toFixed(0), ms(before.p99Ms)],
      [
        "both",
        `${beside.count}`,
        ms(beside.p50Ms),
        ms(beside.p99Ms),
        ((during.count * 1_000) / during.tookMs).toFixed(0),
        ms(during.p99Ms),
      ],
    ],
  );
}
