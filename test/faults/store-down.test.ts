/** The store is not there: fail closed, and serve again without a restart. */
import { beforeAll, expect, test } from "vitest";
import { until } from "../support/until.ts";
import { type Arena, openArena, type Server } from "./arena.ts";

let arena: Arena;
let server: Server;

beforeAll(async () => {
  arena = await openArena();
  server = await arena.serve({ gated: true, args: ["--pool-max", "4"] });
});

test.each(["/orders", "/status/200"])(
  "before %s starts: 503, no business code ran, and it works again",
  async (path) => {
    const tenant = `before-${path}`;
    await arena.proxy.cut();
    const refused = await server.post(path, "k", undefined, tenant);
    expect(refused).toMatchObject({ status: 503, code: "store-unavailable" });
    await arena.proxy.pass();
    const route = path === "/orders" ? path : "/status/{code}";
    expect(await server.starts(route, tenant)).toBe(0);
    await until(async () => (await server.post(path, "k", undefined, tenant)).status < 300, {
      what: "service again",
    });
    expect(await server.starts(route, tenant)).toBe(1);
  },
);

test("while a transaction runs: nothing stays, the retry runs", async () => {
  const running = server.post("/slow-tx", "k", undefined, "during");
  const arrival = await arena.arrival();
  await arena.postgres.kill9();
  arrival.release();
  expect((await running).status).toBeGreaterThanOrEqual(500);
  await arena.postgres.start();
  const retry = server.post("/slow-tx", "k", undefined, "during");
  (await arena.arrival()).release();
  expect(await retry).toMatchObject({ status: 201, replayed: false });
  expect(await server.ledger("during")).toHaveLength(1);
});

test("at the end of a leased attempt: in doubt, never success; the outcome is unknown, not run again", async () => {
  const short = await arena.serve({ gated: true, args: ["--lease-ms", "900"] });
  const running = short.post("/slow", "k", undefined, "lease-end");
  const arrival = await arena.arrival();
  await arena.proxy.cut();
  arrival.release();
  expect(await running).toMatchObject({ status: 503, code: "commit-in-doubt" });
  await arena.proxy.pass();
  const settled = await until(
    async () => {
      const reply = await short.post("/slow", "k", undefined, "lease-end");
      return reply.code === "outcome-unknown" ? reply : undefined;
    },
    { what: "the lease ends and the outcome is unknown" },
  );
  expect(settled?.status).toBe(409);
  expect(await short.starts("/slow", "lease-end")).toBe(1);
});

test("a stalled connection does not hold a request for ever", async () => {
  const impatient = await arena.serve({ args: ["--transaction-limit-ms", "1500"] });
  arena.proxy.stall("down");
  const reply = await impatient.post("/orders", "k", undefined, "stalled");
  expect(reply).toMatchObject({ status: 503 });
  await arena.proxy.pass();
  await until(async () => (await impatient.post("/orders", "k", undefined, "stalled")).status === 201, {
    what: "service again",
    timeoutMs: 20_000,
  });
  expect(await impatient.ledger("stalled")).toHaveLength(1);
});
