/** Decisions on everything that matches a filter, more than one page of it. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import { systemPorts } from "../../packages/latchkey/src/ports.ts";
import { spawnWorker } from "../support/processes.ts";
import { startProxy } from "../support/tcp-proxy.ts";
import {
  bareDoubt,
  begin,
  complete,
  jsonAnswer,
  keyOf,
  latchkey,
  openPlace,
  ownerOf,
  type Place,
} from "./arrange.ts";

const main = new URL("../../packages/latchkey/src/cli/main.ts", import.meta.url);
const by = ["--operator", "ada", "--reason", "Ticket 9"];

let place: Place;
beforeAll(async () => {
  place = await openPlace();
});
afterAll(() => place.close());

const run = (...args: readonly string[]) => latchkey(place.url, ...args);
const rows = async (text: string) => Number((await place.pool.query(text)).rows[0]?.count);
const unknowns = (tenant: string) =>
  rows(`select count(*) from latchkey.records where state = 'unknown' and tenant = '${tenant}'`);
const audits = (tenant: string, event: string) =>
  rows(`select count(*) from latchkey.audit where tenant = '${tenant}' and event = '${event}'`);

/** One by the store, the others as copies of it: what is shown is that there are many. */
async function manyUnknown(tenant: string, count: number): Promise<void> {
  await bareDoubt(place, keyOf("first", { tenant }));
  await place.pool.query(`
    insert into latchkey.records (tenant, scope, key, id, operation, state, fingerprint_version, fingerprint, attempt, token,
      last_error_code, created_at)
    select tenant, scope, 'copy-' || n, gen_random_uuid(), operation, state, fingerprint_version, fingerprint, attempt,
      gen_random_uuid(), last_error_code, created_at
    from latchkey.records, generate_series(2, ${count}) n where tenant = '${tenant}' and key = 'first'`);
}

describe("settle --all", () => {
  test("asks for --yes, shows them with --dry-run, and then settles each with an audit row", async () => {
    await manyUnknown("many", 1_203);
    await bareDoubt(place, keyOf("other", { tenant: "another" }));
    const settle = ["settle", "--all", "--tenant", "many", "--not-executed", ...by];
    const asked = await run(...settle);
    expect(asked.exitCode).toBe(2);
    expect(asked.errors).toContain("1203 match, and nothing was changed.");
    const dry = await run(...settle, "--dry-run");
    expect(dry.exitCode).toBe(0);
    expect(dry.out.split("\n").filter((line) => line.startsWith("would settle"))).toHaveLength(1_203);
    expect(dry.out).toContain("1203 of 1203 would be decided, 0 refused. Nothing was changed.");
    expect(await unknowns("many")).toBe(1_203);
    const done = await run(...settle, "--yes", "--json");
    expect(done.exitCode).toBe(0);
    const lines = done.out.split("\n").map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines.at(-1)).toEqual({
      summary: true,
      dryRun: false,
      total: 1_203,
      done: 1_203,
      refused: 0,
      left: 0,
    });
    expect(lines.filter(({ done: one, audit }) => one === true && typeof audit === "string")).toHaveLength(
      1_203,
    );
    expect(done.errors).toContain("1200 of 1203 …");
    expect([await unknowns("many"), await audits("many", "settle_not_executed")]).toEqual([0, 1_203]);
    expect(await unknowns("another")).toBe(1);
    expect(await run(...settle, "--yes")).toMatchObject({ exitCode: 0, out: "Nothing matches." });
  });

  test("two processes at once settle each record once between them", async () => {
    await manyUnknown("both", 60);
    const children = ["ada", "bob"].map((operator) =>
      spawnWorker(main, {
        args: [
          "settle",
          "--all",
          "--tenant",
          "both",
          "--not-executed",
          "--operator",
          operator,
          "--reason",
          "T",
          "--yes",
          "--json",
        ],
        env: { DATABASE_URL: place.url },
      }),
    );
    for (const child of children) expect([0, 1]).toContain((await child.exited).code);
    const done = children.flatMap(({ lines }) =>
      lines.filter((line) => line.done === true).map(({ id }) => id),
    );
    expect(new Set(done).size).toBe(done.length);
    expect([done.length, await unknowns("both"), await audits("both", "settle_not_executed")]).toEqual([
      60, 0, 60,
    ]);
  });

  test("a connection that is lost in the middle is reported with what is done and what is left", async () => {
    await manyUnknown("lost", 300);
    const target = new URL(place.url);
    const proxy = await startProxy({ to: { host: target.hostname, port: Number(target.port) } });
    target.host = `127.0.0.1:${proxy.port}`;
    const child = spawnWorker(main, {
      args: ["settle", "--all", "--tenant", "lost", "--not-executed", ...by, "--yes", "--json"],
      env: { DATABASE_URL: target.href },
    });
    await child.line(({ done }) => done === true);
    await proxy.cut();
    const { code } = await child.exited;
    await proxy.close();
    expect(code).toBe(1);
    expect(child.stderr()).toContain("Stopped at ");
    const summary = child.lines.at(-1);
    const done = Number(summary?.done);
    expect(summary).toMatchObject({ summary: true, total: 300, refused: 0, left: 300 - done });
    // The one under way may have been settled without a reply.
    expect([300 - done, 299 - done]).toContain(await unknowns("lost"));
    const again = await run("settle", "--all", "--tenant", "lost", "--not-executed", ...by, "--yes");
    expect([again.exitCode, await unknowns("lost")]).toEqual([0, 0]);
  });
});

describe("filters", () => {
  test("by error code and age, in list and in what is decided", async () => {
    await manyUnknown("filtered", 5);
    await place.pool.query(
      `update latchkey.records set last_error_code = 'call-in-doubt' where key in ('copy-2', 'copy-3') and tenant = 'filtered'`,
    );
    await place.pool.query(
      `update latchkey.records set created_at = now() - interval '3 hours' where key in ('copy-3', 'copy-4') and tenant = 'filtered'`,
    );
    const only = ["--tenant", "filtered", "--older-than", "2h", "--error-code", "call-in-doubt"];
    const listed = await run("list", ...only, "--json");
    expect(JSON.parse(listed.out)).toMatchObject({ records: [{ key: "copy-3" }], next: null });
    expect((await run("list", ...only)).out).toMatch(/WAITS FOR.*\n.*a person/u);
    expect((await run("retry", "--all", "--state", "unknown", ...only, ...by, "--yes")).out).toContain(
      "1 of 1 done",
    );
    expect((await run("list", ...only)).out).toContain("a look-up, ");
  });

  test("forget --all refuses what has completed, and says how many", async () => {
    for (const key of ["a", "b"]) {
      const record = await begin(place, keyOf(key, { tenant: "forgetting" }));
      await complete(place, ownerOf(keyOf(key, { tenant: "forgetting" }), record), jsonAnswer(201, {}));
    }
    const forget = ["forget", "--all", "--tenant", "forgetting", "--state", "completed", ...by, "--yes"];
    const refused = await run(...forget);
    expect([refused.exitCode, refused.out]).toEqual([1, "0 of 2 done, 2 refused, 0 not reached."]);
    expect(refused.errors).toContain("--may-run-again");
    expect((await run(...forget, "--may-run-again")).exitCode).toBe(0);
    expect(await audits("forgetting", "forget")).toBe(2);
  });

  test("redrive and discard --all decide about dead effects of one kind", async () => {
    const made = createLatchkey({ store: place.store });
    const effects = ["receipt.send", "sms.send"].map((name) =>
      made.effect(name, { deduplication: "none", execute: async (_: unknown) => null }),
    );
    const operation = made.operation("orders.create", { writes: "none" });
    for (const key of ["1", "2", "3"]) {
      await made.run(operation, { tenant: "dead", key, input: null }, async ({ attempt }) => {
        for (const effect of effects) attempt.enqueue(effect, {});
      });
    }
    const wants = ["receipt.send", "sms.send"].map((effect) => ({ effect, limit: 10 }));
    const claimed = await place.store.outbox?.claim(wants, systemPorts.random.token(), 60_000);
    const ends = (claimed ?? []).map(({ id, fence }) => ({
      id,
      fence,
      event: "die" as const,
      errorCode: "x",
      returned: false,
    }));
    await place.store.outbox?.end(ends);
    const dead = () => rows("select count(*) from latchkey.outbox where state = 'dead'");
    expect(await dead()).toBe(6);
    expect((await run("redrive", "--all", "--effect", "sms.send", ...by, "--dry-run")).out).toContain(
      "3 of 3 would",
    );
    expect(await dead()).toBe(6);
    expect((await run("redrive", "--all", "--effect", "sms.send", ...by, "--yes")).exitCode).toBe(0);
    expect(await dead()).toBe(3);
    expect((await run("discard", "--all", "--operation", "orders.create", ...by, "--yes")).out).toContain(
      "3 of 3 done",
    );
    expect([await dead(), await audits("dead", "redrive"), await audits("dead", "discard")]).toEqual([
      0, 3, 3,
    ]);
  });
});

test.each([
  ["settle", "--all", "--completed", "{}"],
  ["settle", "--all", "--not-executed", "--proof", "closed-downstream"],
  ["settle", "--all"],
  ["settle", "--all", "--not-executed", "--older-than", "2 hours"],
  ["redrive", "--all", "019ab4c2-7f1e-7c31-9a52-3d0f6b8e4a17"],
  ["redrive", "019ab4c2-7f1e-7c31-9a52-3d0f6b8e4a17", "--yes"],
  ["discard", "019ab4c2-7f1e-7c31-9a52-3d0f6b8e4a17", "--tenant", "t"],
  ["retry", "--all", "--state", "completed"],
  ["forget", "--all", "--state", "unknown"],
  ["forget", "019ab4c2-7f1e-7c31-9a52-3d0f6b8e4a17", "--tenant", "t"],
])("%s %s %s … is called wrongly", async (...args) => {
  expect((await run(...args, ...by)).exitCode).toBe(2);
});
