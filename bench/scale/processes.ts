/** The same number of concurrent requests, from one process or from several. */
import { fill, removeNew } from "./fill.ts";
import { alternate, measure, measuredCells, measuredHead, number, type Scale, table } from "./measure.ts";
import { type Job, startWorkers } from "./worker.ts";

const concurrency = 32;
const counts = [1, 2, 4, 8];
const rows = 100_000;
const schema = "processes";

export async function measureProcesses(scale: Scale): Promise<string> {
  const { seconds } = scale;
  await fill(scale.pool, schema, rows);
  const groups = new Map(
    await Promise.all(
      counts.map(
        async (count) => [count, await startWorkers(scale.url, count, concurrency / count)] as const,
      ),
    ),
  );
  const kinds = ["first", "replay"] as const;
  const cells = kinds.flatMap((kind) => counts.map((count) => ({ kind, count })));
  let turns = 0;
  const measured = await alternate(cells, scale.rounds, async ({ kind, count }) => {
    turns += 1;
    const jobOf = (index: number): Job => ({
      kind,
      schema,
      rows,
      concurrency: concurrency / count,
      seconds,
      bytes: 100,
      prefix: `${turns}-${index}`,
    });
    const turn = await measure(scale, groups.get(count) ?? [], jobOf);
    await removeNew(scale.pool, schema);
    return turn;
  });
  await Promise.all([...groups.values()].flat().map((worker) => worker.stop()));
  const lines = [...measured].map(([{ kind, count }, turn]) => [
    kind === "first" ? "first request" : "replay",
    `${count}`,
    ...measuredCells(turn),
  ]);
  const heading = `Number of processes, ${concurrency} concurrent requests in total, ${number(rows)} records:`;
  return table(heading, ["", "processes", ...measuredHead], lines);
}
