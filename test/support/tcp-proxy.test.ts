import { once } from "node:events";
import { connect, createServer } from "node:net";
import { text } from "node:stream/consumers";
import pg from "pg";
import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { isCommit, isCommitReply } from "./postgres-messages.ts";
import { freshDatabase } from "./shared-postgres.ts";
import { startProxy, type TcpProxy } from "./tcp-proxy.ts";
import { until, within } from "./until.ts";

let databaseUrl = "";

beforeAll(async () => {
  databaseUrl = (await freshDatabase()).url;
  await direct("create table t (a int)");
});

async function direct(sql: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

async function proxied(): Promise<{ proxy: TcpProxy; client: pg.Client }> {
  const proxy = await startProxy({ to: { port: Number(new URL(databaseUrl).port) } });
  return { proxy, client: await connected(proxy) };
}

async function connected(proxy: TcpProxy): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: proxy.url(databaseUrl) });
  client.on("error", () => {});
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

const stored = async (a: number) => (await direct(`select a from t where a = ${a}`)).length;

describe("a proxy in front of Postgres", () => {
  it("resets open connections and refuses new ones until it passes traffic again", async () => {
    const { proxy, client } = await proxied();
    const running = client.query("select pg_sleep(60)");
    const failure = expect(running).rejects.toThrow(/ECONNRESET|terminated unexpectedly/);
    await until(
      async () => (await direct("select 1 from pg_stat_activity where query like '%sleep(60)'")).length,
    );
    await proxy.cut();
    await failure;
    await expect(connected(proxy)).rejects.toMatchObject({ code: "ECONNREFUSED" });
    await proxy.pass();
    expect((await (await connected(proxy)).query("select 1 as one")).rows).toEqual([{ one: 1 }]);
  });

  it("resets connections without refusing new ones", async () => {
    const { proxy, client } = await proxied();
    proxy.reset();
    await expect(client.query("select 1")).rejects.toThrow();
    await (await connected(proxy)).query("select 1");
  });

  it("holds COMMIT, which is executed later although its sender has disconnected", async () => {
    const { proxy, client } = await proxied();
    await client.query("begin");
    await client.query("insert into t values (1)");
    const hold = proxy.holdWhen(isCommit);
    const commit = client.query("commit");
    const lost = expect(commit).rejects.toThrow();
    expect(await hold.held()).toMatchObject({ type: "Q", sql: "commit" });
    client.end().catch(() => {});
    (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
    await lost;
    expect(await stored(1)).toBe(0);
    hold.release();
    await until(() => stored(1), { what: "the late COMMIT arrives" });
  });

  it("drops COMMIT, which is then never executed", async () => {
    const { proxy, client } = await proxied();
    await client.query("begin; insert into t values (2)");
    const hold = proxy.holdWhen(isCommit);
    const commit = client.query("commit");
    const lost = expect(commit).rejects.toThrow();
    await hold.held();
    hold.drop();
    await lost;
    const open =
      "select 1 from pg_stat_activity where state = 'idle in transaction' and datname = current_database()";
    await until(async () => (await direct(open)).length === 0);
    expect(await stored(2)).toBe(0);
  });

  it("holds a prepared COMMIT at the first message that names it, and passes earlier messages", async () => {
    const { proxy, client } = await proxied();
    await client.query({ name: "end_it", text: "commit" });
    await client.query("begin");
    const hold = proxy.holdWhen(isCommit);
    const insert = client.query("insert into t values (3) returning a");
    await insert;
    const commit = client.query({ name: "end_it", text: "commit" });
    expect(await hold.held()).toMatchObject({ type: "B", statement: "end_it" });
    expect(await stored(3)).toBe(0);
    hold.release();
    expect(await commit).toMatchObject({ command: "COMMIT" });
    expect(await stored(3)).toBe(1);
  });

  it("holds the reply to COMMIT: committed, but not acknowledged", async () => {
    const { proxy, client } = await proxied();
    await client.query("begin; insert into t values (4)");
    const hold = proxy.holdReplyWhen(isCommitReply);
    const commit = client.query("commit");
    const lost = expect(commit).rejects.toThrow();
    await hold.held();
    expect(await stored(4)).toBe(1);
    hold.drop();
    await lost;
  });

  it("stalls each direction: requests do not arrive, or replies do not", async () => {
    const { proxy, client } = await proxied();
    proxy.stall("up");
    const unsent = client.query("insert into t values (5)");
    await until(() => proxy.counts().up.bytes > 0 && proxy.counts().flights >= 2);
    expect(await stored(5)).toBe(0);
    await proxy.pass();
    await unsent;

    proxy.stall("down");
    const unacknowledged = client.query("insert into t values (6)");
    await until(() => stored(6), { what: "the row arrives" });
    const silent = within(unacknowledged, "an answer", 50);
    await expect(silent).rejects.toThrow("not settled");
    await proxy.pass();
    await unacknowledged;
  });

  it("delays traffic", async () => {
    const { proxy, client } = await proxied();
    proxy.delay({ up: 30, down: 20 });
    const before = performance.now();
    await client.query("select 1");
    expect(performance.now() - before).toBeGreaterThanOrEqual(49);
  });

  it("counts round trips: one for each wait for a reply, however many messages are sent together", async () => {
    const { proxy } = await proxied();
    proxy.delay({ down: 10 });
    const client = new pg.Client({
      connectionString: proxy.url(databaseUrl),
      pipeline: true,
    } as pg.ClientConfig);
    await client.connect();
    onTestFinished(() => client.end());
    const flights = async (work: () => Promise<unknown>) => {
      const before = proxy.counts().flights;
      await work();
      return proxy.counts().flights - before;
    };
    const queries = ["begin", "insert into t values (7)", "commit"];
    const together = () => Promise.all(queries.map((sql) => client.query(sql)));
    const oneByOne = async () => {
      for (const sql of queries) await client.query(sql);
    };
    expect(await flights(together)).toBe(1);
    expect(await flights(oneByOne)).toBe(3);
  });

  it("reports messages in the order in which they pass", async () => {
    const { proxy, client } = await proxied();
    const seen: string[] = [];
    const stop = proxy.observe((message) => seen.push(message.direction + message.type));
    await client.query("select 1");
    stop();
    await client.query("select 1");
    expect(seen.join(" ")).toMatch(/^upQ downT downD downC downZ$/);
  });
});

it("passes any protocol as bytes, including ends of streams and large bodies", async () => {
  const server = createServer({ allowHalfOpen: true }, async (socket) => {
    socket.end((await text(socket)).toUpperCase());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as { port: number };
  const proxy = await startProxy({ to: { port }, protocol: "bytes" });
  const socket = connect({ port: proxy.port, host: "127.0.0.1", allowHalfOpen: true });
  socket.end("large ".repeat(1_000_000));
  expect(await text(socket)).toBe("LARGE ".repeat(1_000_000));
});
