/** While the store is away requests are refused at once; when it is back, one finds out and all are served. */
import { beforeAll, expect, test } from "vitest";
import { until } from "../support/until.ts";
import { type Arena, openArena, type Server } from "./arena.ts";

let arena: Arena;
let server: Server;

beforeAll(async () => {
  arena = await openArena();
  server = await arena.serve();
});

test.each([
  { path: "/orders", route: "/orders" },
  { path: "/status/200", route: "/status/{code}" },
])("$path: refused while Postgres is killed, served again without a restart", async ({ path, route }) => {
  const tenant = `circuit-${path}`;
  const events = (type: string) => server.worker.stderr().split(`"${type}"`).length - 1;
  const before = { opened: events("circuit_opened"), closed: events("circuit_closed") };
  await arena.postgres.kill9();
  await until(
    async () => {
      expect(await server.post(path, "k", undefined, tenant)).toMatchObject({ status: 503 });
      return events("circuit_opened") > before.opened;
    },
    { what: "the circuit breaker opens" },
  );
  expect(await server.post(path, "k", undefined, tenant)).toMatchObject({
    status: 503,
    code: "store-unavailable",
  });
  await arena.postgres.start();
  await until(async () => (await server.post(path, "k", undefined, tenant)).status < 300, {
    what: "service again",
  });
  await until(() => events("circuit_closed") > before.closed, { what: "the event of closing" });
  expect(await server.starts(route, tenant)).toBe(1);
});
