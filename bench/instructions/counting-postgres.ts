/** A Postgres server under valgrind, which counts the instructions that one of its backends executes. */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import pg from "pg";
import { installation } from "../../test/support/postgres-binaries.ts";
import { createDataDirectory, freePort } from "../../test/support/postgres-cluster.ts";
import { onRelease } from "../../test/support/resources.ts";
import { scratchDirectory, serverUser } from "../../test/support/scratch.ts";
import { until } from "../../test/support/until.ts";
import { watchProcess } from "../../test/support/watchdog.ts";

/** Without autovacuum, so that nothing but the backend's own work is counted. */
const conf = `listen_addresses = '127.0.0.1'
autovacuum = off
jit = off
dynamic_shared_memory_type = mmap
io_method = sync
`;

export interface CountingPostgres {
  readonly url: string;
  readonly fullVersion: string;
  /** How many instructions the backend with this process id executes during `run`, the kernel's left out. */
  count(pid: number, run: () => Promise<void>): Promise<number>;
}

export async function startCountingPostgres(): Promise<CountingPostgres> {
  const { bin, fullVersion } = installation();
  const folder = scratchDirectory();
  const data = join(folder, "data");
  await createDataDirectory(installation(), data);
  const port = await freePort();
  writeFileSync(
    join(data, "postgresql.conf"),
    `${conf}port = ${port}\nunix_socket_directories = '${folder}'\n`,
  );
  const user = serverUser();
  const own = {
    ...(user && { uid: user.uid, gid: user.gid }),
    cwd: folder,
    env: { PATH: process.env.PATH, LC_ALL: "C" },
  };
  const valgrind = [
    "--tool=callgrind",
    "--trace-children=yes",
    "--instr-atstart=no",
    "--callgrind-out-file=counts.%p",
  ];
  const server = spawn("valgrind", [...valgrind, join(bin, "postgres"), "-D", data], {
    ...own,
    stdio: "ignore",
  });
  await once(server, "spawn");
  const forget = watchProcess(server.pid ?? 0, "SIGQUIT");
  onRelease(async () => {
    server.kill("SIGINT");
    if (server.exitCode === null) await once(server, "exit");
    forget();
    await rm(folder, { recursive: true, force: true });
  });
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  await until(() => answers(url), {
    what: "the server takes connections",
    timeoutMs: 60_000,
    intervalMs: 200,
  });
  const control = (...args: string[]) => execFileSync("callgrind_control", args, { ...own, stdio: "pipe" });
  const files = (pid: number) => readdirSync(folder).filter((name) => name.startsWith(`counts.${pid}`));
  return {
    url,
    fullVersion,
    async count(pid, run) {
      control("--instr=on", String(pid));
      await run();
      control("--dump", String(pid));
      control("--instr=off", String(pid));
      return files(pid).reduce((sum, name) => sum + totalOf(readFileSync(join(folder, name), "utf8")), 0);
    },
  };
}

async function answers(url: string): Promise<boolean> {
  const client = new pg.Client(url);
  client.on("error", () => {});
  await client.connect();
  await client.end();
  return true;
}

function totalOf(counts: string): number {
  return Number(/^(?:totals|summary): (\d+)/m.exec(counts)?.[1] ?? 0);
}
