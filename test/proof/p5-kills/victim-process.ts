/**
 * The process that is killed. Its argument is JSON (`VictimSettings`). It makes itself ready, waits for a line on stdin, does
 * its job, and kills itself at the port call that its settings name. What happens goes to stdout, one line of JSON each.
 */
import { writeSync } from "node:fs";
import { createInterface } from "node:readline";
import pg from "pg";
import { wayToOtherSide } from "./ask-other-side.ts";
import { assemble, type ServiceName } from "./assemble.ts";
import { countedStore } from "./counted-store.ts";
import { type Call, Course, type KillPoint } from "./course.ts";
import { plantOf, plantVariable } from "./plants.ts";
import { failed, type Reply, replyOf } from "./reply.ts";
import type { Order } from "./work.ts";

export type Job =
  | { readonly do: "submit"; readonly operation: string; readonly order: Order }
  | { readonly do: "work"; readonly service: ServiceName };

export interface VictimSettings {
  /** What the server and the other side know it by. */
  readonly name: string;
  readonly databaseUrl: string;
  readonly otherSidePort: number;
  readonly transactionLimitMs: number;
  /** Null: it lives. */
  readonly doom: KillPoint | null;
  readonly job: Job;
  /** What it does first, uncounted: a client has its answer. */
  readonly acknowledged: Order;
}

/** What it tells of calls, when it lives. */
export type ReportedCall = Pick<Call, "port" | "writes">;

const settings = JSON.parse(process.argv[2] ?? "") as VictimSettings;
const { name, doom, job, acknowledged, transactionLimitMs } = settings;
/** Written at once, so that no line is lost when the process dies. */
const tell = (line: Readonly<Record<string, unknown>>) => writeSync(1, `${JSON.stringify(line)}\n`);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function hold({ port }: Call): Promise<void> {
  // What is asked of the other side says by itself that it is late.
  if (port === "send" || port === "lookup" || port === "close") return;
  tell({ hold: true });
  await lines.next();
}

const course = new Course(doom, hold);
const pool = new pg.Pool({
  connectionString: settings.databaseUrl,
  application_name: name,
  max: 8,
  idleTimeoutMillis: 0,
});
pool.on("error", () => {});
pool.on("connect", (client) => {
  course.watch(
    (client as unknown as { connection: { stream: Parameters<Course["watch"]>[0] } }).connection.stream,
  );
});
const way = await wayToOtherSide(settings.otherSidePort, name);
course.watch(way.socket);

let beats = 0;
let onBeat = () => {};
const beaten = (times: number) =>
  new Promise<void>((resolve) => {
    onBeat = () => beats >= times && resolve();
    onBeat();
  });

const { works, work, close } = assemble(
  pool,
  {
    by: name,
    ask: way.ask,
    pass: (port, act) => course.pass(port, act),
    plant: plantOf(process.env[plantVariable]),
    ran: (step, order) => tell({ ran: step, name: order }),
    beaten,
    transactionLimitMs,
  },
  () => {},
  (inner) => {
    const counted = countedStore(inner, course);
    return {
      ...counted,
      async renew(...given) {
        const renewed = await counted.renew(...given);
        beats += 1;
        onBeat();
        return renewed;
      },
    };
  },
);

async function submit(operation: string, order: Order): Promise<Reply> {
  return works.submit(operation, order).then(replyOf, failed);
}

/** Connections that are open make no difference to how often a call writes. */
async function connect(): Promise<void> {
  const clients = await Promise.all(Array.from({ length: 3 }, () => pool.connect()));
  for (const client of clients) client.release();
}

async function doJob(): Promise<void> {
  if (job.do === "submit") tell({ job: await submit(job.operation, job.order) });
  else tell({ worked: await work(job.service).catch(String) });
}

await connect();
tell({ ready: true });
await lines.next();
tell({ acknowledged: await submit("order", acknowledged) });
await course.run(doJob);
const listed = (calls: readonly Call[]): readonly ReportedCall[] =>
  calls.map(({ port, writes }) => ({ port, writes }));
// With what nobody has waited for.
do await new Promise((resolve) => setImmediate(resolve));
while (pool.idleCount < pool.totalCount);
await close();
tell({ ended: { calls: listed(course.calls), beats: listed(course.beats) } });
await lines.next();
await pool.end();
way.end();
process.exit();
