/** A process that is stopped for longer than it owns its key, and then goes on as if nothing had happened. */
import { beforeAll, describe, expect, test } from "vitest";
import { until } from "../support/until.ts";
import { type Arena, openArena, type Server } from "./arena.ts";

let arena: Arena;
let frozen: Server;
let other: Server;

beforeAll(async () => {
  arena = await openArena();
  const args = ["--lease-ms", "900", "--transaction-limit-ms", "900"];
  [frozen, other] = await Promise.all([
    arena.serve({ args, gated: true }),
    arena.serve({ args, direct: true }),
  ]);
});

describe("a frozen owner", () => {
  test("under a lease is written off as unknown; woken, it settles its own, and all hear the same", async () => {
    const running = frozen.post("/slow", "k", undefined, "lease");
    const arrival = await arena.arrival();
    await frozen.worker.freeze();
    expect(await other.post("/slow", "k", undefined, "lease")).toMatchObject({ code: "in-progress" });
    await until(async () => (await other.post("/slow", "k", undefined, "lease")).code === "outcome-unknown", {
      what: "the lease ends",
    });
    frozen.worker.thaw();
    arrival.release();
    const woken = await running;
    expect(woken).toMatchObject({ status: 200, replayed: false });
    expect(await other.post("/slow", "k", undefined, "lease")).toEqual({ ...woken, replayed: true });
    expect(await other.starts("/slow", "lease")).toBe(1);
  });

  test("in a transaction frees its key; woken, it answers with the other's answer or an error", async () => {
    const running = frozen.post("/slow-tx", "k", undefined, "tx");
    const arrival = await arena.arrival();
    await frozen.worker.freeze();
    expect(await other.post("/slow-tx", "k", undefined, "tx")).toMatchObject({ code: "in-progress" });
    const winner = await until(
      async () => {
        const reply = await other.post("/slow-tx", "k", undefined, "tx");
        return reply.status === 201 ? reply : undefined;
      },
      { what: "the database ends the frozen transaction" },
    );
    frozen.worker.thaw();
    arrival.release();
    const woken = await running;
    if (woken.status === 201) expect(woken).toEqual({ ...winner, replayed: true });
    else expect(woken.status).toBeGreaterThanOrEqual(500);
    expect(await other.ledger("tx")).toHaveLength(1);
  });
});
