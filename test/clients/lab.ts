/** Two fixtures on one Postgres that can be taken away, and the gate at which every handler stops. */
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { type Fixture, startFixture, temporaryFolder } from "../support/fixture.ts";
import { onRelease } from "../support/resources.ts";
import { type FreshDatabase, freshDatabase } from "../support/shared-postgres.ts";
import { startProxy, type TcpProxy } from "../support/tcp-proxy.ts";
import { type Deferred, deferred, until } from "../support/until.ts";
import type { Client } from "./clients.ts";

export interface Lab {
  fixture(policy: Client["policy"]): Fixture;
  /** The first handler that starts for a tenant, waiting. */
  handler(tenant: string): Promise<Waiting>;
  takeStoreAway(): Promise<void>;
  /** Returns when both fixtures serve again. */
  giveStoreBack(): Promise<void>;
  close(): Promise<void>;
}

export interface Waiting {
  release(): void;
}

export async function openLab(): Promise<Lab> {
  const database = await freshDatabase();
  const store = await startProxy({ to: { port: Number(new URL(database.url).port) }, protocol: "bytes" });
  const folder = temporaryFolder();
  const gate = await openGate(join(folder, "gate"));
  const start = (policy: Client["policy"]) =>
    startFixture({
      http: "express",
      store: store.url(database.url),
      args: ["--data", `${folder}/data`, "--policy", policy, "--pool-max", "60"],
      env: { LATCHKEY_FIXTURE_GATE: gate.path },
    });
  const [ietf, stripe] = await Promise.all([start("ietf"), start("stripe")]);
  return {
    fixture: (policy) => (policy === "ietf" ? ietf : stripe),
    handler: gate.handler,
    takeStoreAway: () => store.cut(),
    async giveStoreBack() {
      await store.pass();
      await Promise.all([serves(ietf), serves(stripe)]);
    },
    close: () => close([ietf, stripe], store, database),
  };
}

/** Like `openHandlerGate`, by tenant: many wait at once, and which comes first is not known. */
async function openGate(path: string) {
  const waiting = new Map<string, Deferred<Waiting>>();
  const of = (tenant: string) => {
    const one = waiting.get(tenant) ?? deferred<Waiting>();
    waiting.set(tenant, one);
    return one;
  };
  const arrive = (socket: Socket, line: string) => {
    const one = of((JSON.parse(line) as { tenant: string }).tenant);
    // A second handler is one too many: it goes on, so that what it does can be counted.
    if (one.settled) socket.end("go");
    one.resolve({ release: () => socket.end("go") });
  };
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.setEncoding("utf8").once("data", (line: unknown) => arrive(socket, String(line)));
  });
  server.listen(path);
  await once(server, "listening");
  onRelease(() => void server.close());
  return { path, handler: (tenant: string) => of(tenant).promise };
}

async function serves(fixture: Fixture): Promise<void> {
  const order = { tenant: "probe", body: { item: "probe", amount: 1 } };
  let count = 0;
  const answered = async () => (await fixture.post("/orders", `probe-${++count}`, order)).status === 201;
  await until(answered, { what: "the fixture serves again", timeoutMs: 20_000 });
}

async function close(fixtures: readonly Fixture[], store: TcpProxy, database: FreshDatabase) {
  await Promise.all(fixtures.map(({ worker }) => worker.stop()));
  await store.close();
  await database.drop();
}
