/**
 * A disk that fills up under load: the one with the WAL (the server panics) or the one with the tables (statements fail).
 * No caller gets a success that is not there, and when there is room again the same processes serve again.
 */
import { renameSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { copyTree } from "../../support/postgres-cluster.ts";
import { PrivatePostgres } from "../../support/private-postgres.ts";
import { until } from "../../support/until.ts";
import { auditViolations, untilTidy, violations } from "./judge.ts";
import { prepare } from "./pair.ts";
import { ProcessGroup } from "./process-group.ts";
import { expectNone, type Section, type Stage, type Tally, type Unable, Violated } from "./section.ts";
import { mountSmallDisk, type SmallDisk } from "./small-disk.ts";
import { postgresVersionsUsed, versionOf } from "./sync-failover.ts";

type Full = "WAL" | "tables";

const warmUp = 3;
/** WAL in segments of 1 MB, of which at most 16 are kept. */
const megabytes = { WAL: 48, tables: 120 } as const satisfies Record<Full, number>;
const noRoom = "No space left on device";
const conf = { max_wal_size: "16MB", min_wal_size: "4MB", autovacuum: false };

export const diskFull: Section = {
  id: "disk-full",
  what: "disks that fill up under load",
  bound: "a tmpfs with the WAL, and one with the tables",
  runs: 8,
  small: 0,
  requiredFaults: ["disk with the WAL full", "disk with the tables full"],
  requiredReached: ["server down for want of room", "statement refused for want of room", "answer replayed"],
  versions: postgresVersionsUsed,
  async open(): Promise<Stage | Unable> {
    const disk = await mountSmallDisk(1);
    await disk?.close();
    return disk === null ? { notRun: "mounting a small file system needs root" } : new DiskStage();
  },
  measured: () => [],
};

class DiskStage implements Stage {
  async run(number: number): Promise<Tally> {
    const full: Full = number % 2 === 0 ? "WAL" : "tables";
    const disk = await mountSmallDisk(megabytes[full]);
    if (disk === null) throw new Error("the disk could not be mounted");
    const server = new PrivatePostgres({
      conf,
      version: versionOf(number, 2),
      ...(full === "tables" && { dataDir: join(disk.path, "data") }),
    });
    await server.start();
    if (full === "WAL") await moveWal(server, disk);
    await prepare(server);
    const crew = await ProcessGroup.open(server.url, [{}, {}]);
    const round = `d${number}`;
    crew.begin(round);
    await crew.untilAnswered(round, warmUp);
    disk.fill();
    const reached = full === "WAL" ? await whileDown(server, crew) : await whileRefused(server, crew);
    disk.free();
    if (!server.running) await server.start();
    await crew.untilAnswered(round, 2);
    await crew.rest();
    const what = `disk with the ${full} full`;
    const scene = { server, receiver: crew.receiver, round, clients: crew.clients };
    expectNone(what, await violations(scene));
    expectNone(what, await auditViolations(scene));
    await untilTidy(scene);
    const all = { ...crew.reached(), ...reached };
    await crew.close();
    await server.stop();
    await disk.close();
    return { faults: { [what]: 1 }, reached: all, sums: {} };
  }

  async close(): Promise<void> {}
}

/** The server cannot write on, panics, and cannot recover before there is room. Nothing runs meanwhile. */
async function whileDown(
  server: PrivatePostgres,
  crew: ProcessGroup,
): Promise<Readonly<Record<string, number>>> {
  // Segments that are there already would last for long.
  const another = () => server.admin("select pg_switch_wal()").catch(() => {});
  const down = async () => {
    if (server.running) await another();
    return !server.running;
  };
  await until(down, { what: "the server gives up", timeoutMs: 60_000 });
  if (!server.log().includes(noRoom)) throw new Error(`it ended otherwise:\n${server.log()}`);
  // What had begun before is over once its client has its reply.
  await Promise.all(crew.clients.map((client) => client.untilReported("threw", 20)));
  const before = runsOf(crew);
  await Promise.all(crew.clients.map((client) => client.untilReported("threw", 20)));
  const started = runsOf(crew) - before;
  if (started > 0) {
    throw new Violated("the server was down for want of room", [
      { invariant: "I8", seen: `${started} handlers were started` },
    ]);
  }
  return { "server down for want of room": 1 };
}

/** Statements that need another page are refused; the others go on. */
async function whileRefused(
  server: PrivatePostgres,
  crew: ProcessGroup,
): Promise<Readonly<Record<string, number>>> {
  await Promise.all(crew.clients.map((client) => client.untilReported("threw", 10)));
  if (!server.log().includes(noRoom)) throw new Error(`they were refused otherwise:\n${server.log()}`);
  return { "statement refused for want of room": 1 };
}

function runsOf({ clients }: ProcessGroup): number {
  return clients.reduce((sum, client) => sum + client.read().ran.length, 0);
}

async function moveWal(server: PrivatePostgres, disk: SmallDisk): Promise<void> {
  await server.shutdown();
  const wal = join(server.dataDir, "pg_wal");
  await copyTree([wal], disk.path);
  renameSync(wal, `${wal}.before`);
  symlinkSync(join(disk.path, "pg_wal"), wal);
  await server.start();
}
