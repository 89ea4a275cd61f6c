/**
 * Processes that work off what is due and end, killed with SIGKILL in the middle. Those that a timetable starts later go on:
 * one effect, one row and one answer for each.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { spawnWorker, type WorkerLine, type WorkerProcess } from "../support/processes.ts";
import { fillPgliteFolder } from "../support/ready-pglite.ts";
import { scratchDirectory } from "../support/scratch.ts";
import { freshDatabase } from "../support/shared-postgres.ts";
import { isThorough } from "../support/thorough.ts";
import { until } from "../support/until.ts";
import { noticeOf, type StopPoint } from "./deferred-work.ts";
import type { OneShotSettings } from "./one-shot-process.ts";
import { openReceiver, type Receiver } from "./outbox-receiver.ts";

type Database = OneShotSettings["database"];

const script = new URL("./one-shot-process.ts", import.meta.url);
const folder = scratchDirectory("us");
afterAll(() => rmSync(folder, { recursive: true, force: true }));
/** Starting a process and its embedded database on a busy machine. */
const patienceMs = 60_000;

const points: readonly StopPoint[] = isThorough
  ? ["begun", "in-placed", "before-send", "after-send", "in-settled", "in-on-delivered"]
  : ["after-send"];
/** PGlite takes seconds to start, each time. */
const kinds = isThorough ? (["postgres", "pglite"] as const) : (["postgres"] as const);
const kills = kinds.flatMap((kind) => points.map((stopAt) => ({ kind, stopAt })));

let receiver: Receiver;
beforeAll(async () => {
  receiver = await openReceiver();
});

async function open(kind: Database["kind"], name: string): Promise<Database & { drop(): Promise<void> }> {
  if (kind === "postgres") {
    const { url, drop } = await freshDatabase();
    return { kind, at: url, drop };
  }
  const at = join(folder, name);
  await fillPgliteFolder(at);
  return { kind, at, drop: async () => {} };
}

function start(
  { kind, at }: Database,
  names: readonly string[],
  stopAt: StopPoint | null = null,
): WorkerProcess {
  const settings: OneShotSettings = {
    database: { kind, at },
    receiverUrl: receiver.url,
    names,
    stopAt,
  };
  return spawnWorker(script, { args: [JSON.stringify(settings)] });
}

/** Once more, and what it says at the end. */
async function again(database: Database, names: readonly string[]): Promise<WorkerLine> {
  const next = start(database, names);
  const answered = await next.line((line) => "answers" in line, patienceMs);
  expect(await next.exited).toEqual({ code: 0, signal: null });
  return answered;
}

const kindsOf = ({ answers }: WorkerLine) => (answers as readonly { kind: string }[]).map(({ kind }) => kind);

test.each(kills)("$kind, killed $stopAt: the next ones end it, once", async ({ kind, stopAt }) => {
  const names = [1, 2, 3].map((at) => `${kind} ${stopAt} ${at}`);
  const database = await open(kind, stopAt);
  const victim = start(database, names, stopAt);
  await victim.line((line) => line.stopped === stopAt, patienceMs);
  expect(await victim.kill("SIGKILL")).toMatchObject({ signal: "SIGKILL" });
  let done: WorkerLine = {};
  const isDone = async () => {
    done = await again(database, names);
    const isAnswered = kindsOf(done).every((answer) => answer === "replay");
    return isAnswered && (done.noted as readonly unknown[]).length === names.length;
  };
  await until(isDone, { what: "all of it is done", timeoutMs: patienceMs, intervalMs: 100 });
  const rows = names.map((name) => ({ name }));
  expect(done).toMatchObject({ placed: rows, settled: rows });
  expect(done.noted).toEqual(names.map((name) => ({ name: noticeOf(name) })));
  for (const name of names) {
    expect(receiver.effectsOf(name), `the receiver's ledger, ${name}`).toBe(1);
    expect(receiver.effectsOf(noticeOf(name))).toBe(1);
  }
  const repeated = await again(database, names);
  expect(repeated.answers, "one answer").toEqual(done.answers);
  await database.drop();
});
