/** Many requests, two processes, one key. */
import { beforeAll, expect, test } from "vitest";
import { patient } from "../support/patience.ts";
import { until } from "../support/until.ts";
import { type Arena, openArena, type Reply, type Server } from "./arena.ts";

let arena: Arena;
let servers: Server[];

beforeAll(async () => {
  arena = await openArena();
  servers = await twoServers();
});

/** Their clocks are hours apart. */
function twoServers(args: readonly string[] = []): Promise<Server[]> {
  return Promise.all([5, -5].map((clockOffHours) => arena.serve({ clockOffHours, args })));
}

const [even, odd] = [0, 1];
const serverOf = (index: number): Server => servers[index % 2 === 0 ? even : odd] as Server;

function race(path: string, tenant: string, body: (index: number) => unknown): Promise<Reply[]> {
  return Promise.all(
    Array.from({ length: 50 }, (_, index) => serverOf(index).post(path, "k", body(index), tenant)),
  );
}

test("one body: one start; all others get 409 or the same answer", async () => {
  const replies = await race("/orders", "one-body", () => ({ item: "book", amount: 1 }));
  const answers = replies.filter((reply) => reply.status === 201);
  expect(new Set(replies.map((reply) => reply.status))).toEqual(
    new Set([...answers.map(() => 201), ...others(replies)]),
  );
  expect(others(replies).every((status) => status === 409)).toBe(true);
  expect(answers.filter((reply) => !reply.replayed)).toHaveLength(1);
  expect(new Set(answers.map((reply) => reply.body)).size).toBe(1);
  expect(await serverOf(0).starts("/orders", "one-body")).toBe(1);
  expect(await serverOf(0).ledger("one-body")).toHaveLength(1);
});

test.each(["/orders", "/status/201"])(
  "two bodies on %s: one wins, its answer never goes to the other body",
  async (path) => {
    const tenant = `two-bodies-${path}`;
    const replies = await race(path, tenant, (index) => ({ item: index % 3 === 0 ? "a" : "b", amount: 1 }));
    const first = replies.findIndex((reply) => reply.status === 201 && !reply.replayed);
    expect(first).toBeGreaterThanOrEqual(0);
    const winner = first % 3 === 0;
    for (const [index, reply] of replies.entries()) {
      if (reply.status === 201) expect(index % 3 === 0).toBe(winner);
      else expect([409, 422]).toContain(reply.status);
    }
    const route = path === "/orders" ? path : "/status/{code}";
    expect(await serverOf(0).starts(route, tenant)).toBe(1);
  },
);

test("two tenants with one key run independently", async () => {
  const [left, right] = await Promise.all([
    serverOf(0).post("/orders", "k", undefined, "left"),
    serverOf(1).post("/orders", "k", undefined, "right"),
  ]);
  expect([left, right]).toMatchObject([
    { status: 201, replayed: false },
    { status: 201, replayed: false },
  ]);
});

test("retention is judged by the database's clock, cleaner off and process clocks hours apart", async () => {
  // The races' servers keep answers long: on a slow machine a race takes more than a short retention.
  const [left, right] = (await twoServers(["--retention-ms", String(patient(1_500))])) as [Server, Server];
  const first = await left.post("/orders", "k", undefined, "retention");
  expect(await right.post("/orders", "k", undefined, "retention")).toEqual({
    ...first,
    replayed: true,
  });
  const second = await until(
    async () => {
      const reply = await right.post("/orders", "k", undefined, "retention");
      return reply.replayed ? undefined : reply;
    },
    { what: "the key is forgotten" },
  );
  expect(second).toMatchObject({ status: 201 });
  expect(second?.body).not.toBe(first.body);
  expect(await left.ledger("retention")).toHaveLength(2);
});

function others(replies: readonly Reply[]): number[] {
  return replies.map((reply) => reply.status).filter((status) => status !== 201);
}
