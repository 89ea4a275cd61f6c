/** Answers of different sizes. */
import { migratePostgres } from "latchkey/postgres";
import { alternate, measure, measuredCells, measuredHead, number, type Scale, table } from "./measure.ts";
import { startWorkers } from "./worker.ts";

const concurrency = 8;
const sizes = [100, 1_000, 10_000, 100_000, 1_000_000];

export async function measureBodies(scale: Scale): Promise<string> {
  const schema = "bodies";
  await migratePostgres(scale.pool, { schema });
  const workers = await startWorkers(scale.url, 1, concurrency);
  const kinds = ["first", "again"] as const;
  const cells = sizes.flatMap((bytes) => kinds.map((kind) => ({ bytes, kind })));
  let turns = 0;
  const measured = await alternate(cells, scale.rounds, ({ bytes, kind }) => {
    turns += 1;
    const prefix = kind === "first" ? `${bytes}-${turns}` : `${bytes}`;
    const job = { kind, schema, concurrency, seconds: scale.seconds, bytes, prefix };
    return measure(scale, workers, () => job);
  });
  await Promise.all(workers.map((worker) => worker.stop()));
  const lines = [...measured].map(([{ bytes, kind }, turn]) => [
    kind === "first" ? "first request" : "replay",
    number(bytes),
    ...measuredCells(turn),
  ]);
  return table(
    `Size of the answer, ${concurrency} concurrent requests:`,
    ["", "bytes", ...measuredHead],
    lines,
  );
}
