/** PostgreSQL under Patroni with etcd: a primary, standbys of which one is synchronous, and an election when the primary dies. */
import { chmodSync, chownSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { debianTool } from "./debian-tools.ts";
import { notRun } from "./not-run.ts";
import { installation, installedVersions } from "./postgres-binaries.ts";
import { freePort, removeSharedMemory } from "./postgres-cluster.ts";
import { PrivateServer } from "./private-server.ts";
import { identify, killTree } from "./process-tree.ts";
import { onRelease } from "./resources.ts";
import { scratchDirectory, serverUser } from "./scratch.ts";
import { until } from "./until.ts";

const size = 3;
/** Patroni's minimum: a leader that is silent for this long is replaced. Its default is 30. */
const ttlSeconds = 20;
const formingTimeoutMs = 90_000;

export interface PatroniCluster {
  readonly nodes: readonly PatroniNode[];
  /** The node that has the leader's lock now. */
  leader(): Promise<PatroniNode>;
  /** Resolves when a node leads, the others stream from it, and one of them is synchronous. */
  untilWhole(): Promise<void>;
}

export interface PatroniOptions {
  /** A program, called when a node has started or changed its role, with its port, the action, the role and the cluster's name. */
  readonly onRoleChange: string;
}

/** Undefined after a "not run" report. */
export async function startPatroni(options: PatroniOptions): Promise<PatroniCluster | undefined> {
  const [patroni, etcd] = [await debianTool("patroni"), await debianTool("etcd")];
  const bin = installedVersions()
    .map((version) => installation(version).bin)
    .find((folder) => existsSync(join(folder, "pg_basebackup")));
  if (patroni === null || etcd === null || bin === undefined) {
    notRun("tests under Patroni", "no patroni, no etcd, or no PostgreSQL with pg_basebackup");
    return undefined;
  }
  const store = await startEtcd(etcd);
  const nodes = [];
  for (let index = 0; index < size; index += 1) {
    const seat = { folder: scratchDirectory(), port: await freePort() };
    const restPort = await freePort();
    nodes.push(new PatroniNode(patroni, { ...seat, bin, restPort, name: `node${index}`, store, ...options }));
  }
  // The first creates the database, which the others copy.
  const [first, ...others] = nodes;
  await first?.start();
  await Promise.all(others.map((node) => node.start()));
  const cluster = clusterOf(nodes);
  await cluster.untilWhole();
  return cluster;
}

function clusterOf(nodes: readonly PatroniNode[]): PatroniCluster {
  const leader = async () => {
    for (const node of nodes) if (await node.leads().catch(() => false)) return node;
    throw new Error("no node leads");
  };
  return {
    nodes,
    leader,
    async untilWhole() {
      const isWhole = async () => {
        const sql = "select sync_state from pg_stat_replication where state = 'streaming'";
        const rows = await (await leader()).admin<{ sync_state: string }>(sql);
        return rows.length === size - 1 && rows.some(({ sync_state }) => sync_state === "sync");
      };
      await until(isWhole, { what: "all nodes replicate", timeoutMs: formingTimeoutMs, intervalMs: 100 });
    },
  };
}

async function startEtcd(program: string): Promise<PrivateServer> {
  const peer = `http://127.0.0.1:${await freePort()}`;
  const recipe = {
    name: "etcd",
    url: ({ port }: { readonly port: number }) => `http://127.0.0.1:${port}`,
    prepare: async ({ folder, port }: { readonly folder: string; readonly port: number }) => {
      const url = `http://127.0.0.1:${port}`;
      const clients = ["--listen-client-urls", url, "--advertise-client-urls", url];
      const peers = ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer];
      const data = ["--data-dir", join(folder, "data"), "--initial-cluster", `default=${peer}`];
      return { args: [...data, ...clients, ...peers, "--unsafe-no-fsync"], env: {} };
    },
    answers: async (url: string) => (await fetch(`${url}/health`)).ok,
  };
  const server = new PrivateServer(recipe, program, { folder: scratchDirectory(), port: await freePort() });
  await server.start();
  return server;
}

interface NodeSettings extends PatroniOptions {
  readonly folder: string;
  readonly port: number;
  readonly restPort: number;
  readonly bin: string;
  readonly name: string;
  readonly store: PrivateServer;
}

/** Patroni and the PostgreSQL that it runs. */
export class PatroniNode {
  readonly #settings: NodeSettings;
  readonly #server: PrivateServer;

  /** Use `startPatroni`. */
  constructor(program: string, settings: NodeSettings) {
    this.#settings = settings;
    const recipe = {
      name: "Patroni",
      url: () => `postgres://postgres@127.0.0.1:${settings.port}/postgres`,
      prepare: async () => {
        const file = join(settings.folder, "patroni.json");
        writeFileSync(file, JSON.stringify(configuration(settings)));
        const user = serverUser();
        if (user) chownSync(file, user.uid, user.gid);
        chmodSync(file, 0o600);
        return { args: [file], env: {} };
      },
      answers: async (url: string) => (await query(url, "select 1")).length === 1,
    };
    this.#server = new PrivateServer(recipe, program, settings);
    onRelease(() => this.stop());
  }

  /** Of its PostgreSQL; a standby refuses to write. */
  get url(): string {
    return this.#server.url;
  }

  log(): string {
    return this.#server.log();
  }

  start(): Promise<void> {
    return this.#server.start();
  }

  /** The request that load balancers send. */
  async leads(): Promise<boolean> {
    return (await fetch(`http://127.0.0.1:${this.#settings.restPort}/primary`)).ok;
  }

  admin<R extends pg.QueryResultRow>(sql: string): Promise<R[]> {
    return query<R>(this.url, sql);
  }

  /** SIGKILL for Patroni, then for PostgreSQL, which Patroni would start again. */
  async kill9(): Promise<void> {
    const file = readFileSync(join(this.#dataDir, "postmaster.pid"), "utf8");
    const postmaster = identify(Number.parseInt(file, 10));
    await this.#server.kill9();
    await killTree(postmaster);
  }

  /** Ends it for good and removes its files. */
  async stop(): Promise<void> {
    if (existsSync(join(this.#dataDir, "postmaster.pid"))) await this.kill9();
    removeSharedMemory(this.#dataDir);
    await this.#server.stop();
  }

  get #dataDir(): string {
    return dataDirOf(this.#settings.folder);
  }
}

const dataDirOf = (folder: string) => join(folder, "data");

/** As YAML, of which JSON is a part. */
function configuration({ folder, port, restPort, bin, name, store, onRoleChange }: NodeSettings): object {
  const rest = `127.0.0.1:${restPort}`;
  const address = `127.0.0.1:${port}`;
  return {
    scope: "tests",
    name,
    restapi: { listen: rest, connect_address: rest },
    etcd3: { host: new URL(store.url).host },
    bootstrap: {
      dcs: {
        ttl: ttlSeconds,
        loop_wait: 2,
        retry_timeout: 5,
        synchronous_mode: true,
        // Without it the last remaining node acknowledges data that no other node has.
        synchronous_mode_strict: true,
        postgresql: { use_pg_rewind: true, use_slots: true },
      },
      initdb: ["no-sync", { encoding: "UTF8" }, { locale: "C" }, { auth: "trust" }],
    },
    postgresql: {
      listen: address,
      connect_address: address,
      data_dir: dataDirOf(folder),
      bin_dir: bin,
      pgpass: join(folder, "pgpass"),
      authentication: { superuser: { username: "postgres" }, replication: { username: "postgres" } },
      pg_hba: ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"],
      callbacks: { on_start: `${onRoleChange} ${port}`, on_role_change: `${onRoleChange} ${port}` },
      parameters: {
        unix_socket_directories: "",
        // Loses nothing when processes are killed, only when the machine is.
        fsync: "off",
        shared_buffers: "16MB",
        dynamic_shared_memory_type: "mmap",
        max_wal_size: "64MB",
        jit: "off",
      },
    },
  };
}

async function query<R extends pg.QueryResultRow>(url: string, sql: string): Promise<R[]> {
  const client = new pg.Client({ connectionString: url });
  client.on("error", () => {});
  await client.connect();
  try {
    return (await client.query<R>(sql)).rows;
  } finally {
    await client.end();
  }
}
