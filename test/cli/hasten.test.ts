/** `latchkey forget` and `latchkey retry`: what they let happen, and what they refuse. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PGlite } from "@electric-sql/pglite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { guardOf } from "../../packages/latchkey/src/engine/record.ts";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import { openPglite } from "../../packages/latchkey/src/stores/pglite.ts";
import { spawnWorker } from "../support/processes.ts";
import { fillPgliteFolder } from "../support/ready-pglite.ts";
import { isThorough } from "../support/thorough.ts";
import {
  bareDoubt,
  begin,
  callInDoubt,
  complete,
  jsonAnswer,
  keyOf,
  latchkey,
  latchkeyUnder,
  openPlace,
  ownerOf,
  type Place,
  stateOf,
} from "./arrange.ts";
import { withConfig } from "./configs/described.ts";

const main = new URL("../../packages/latchkey/src/cli/main.ts", import.meta.url);
const by = ["--operator", "ada", "--reason", "Ticket 7"];

let place: Place;
beforeAll(async () => {
  place = await openPlace();
});
afterAll(() => place.close());

async function completed(key: string, status = 201): Promise<string> {
  const record = await begin(place, keyOf(key));
  await complete(place, ownerOf(keyOf(key), record), jsonAnswer(status, {}));
  return record.id;
}

async function failed(key: string): Promise<string> {
  const record = await begin(place, keyOf(key));
  const retention = { retentionMs: 3_600_000, forgetAfterMs: 7_200_000 };
  const end = { event: "fail", answer: jsonAnswer(500, {}), retention, errorCode: null } as const;
  if ((await place.store.end(keyOf(key), record.id, record.fence, end)) === null)
    throw new Error("it is ours");
  return record.id;
}

async function retryable(key: string): Promise<string> {
  const { id } = await callInDoubt(place, keyOf(key));
  const { record } = await place.store.read(keyOf(key));
  if (record === null) throw new Error("it is there");
  const settlement = {
    event: "settle_not_executed",
    calls: "never-happened",
    reopen: null,
    resumeAfterMs: null,
  } as const;
  const note = { id: crypto.randomUUID(), actor: "a", proof: "operator", reason: "r" };
  await place.store.settlement.settle(keyOf(key), guardOf(record), settlement, note);
  return id;
}

const audit = async (key: string) =>
  (await place.store.settlement.audit(keyOf(key))).map(({ event, actor }) => [event, actor]);
const run = (...args: readonly string[]) => latchkey(place.url, ...args);

describe("forget", () => {
  test("a stored failure is forgotten, and the key runs as new under another id", async () => {
    const id = await failed("failed");
    const { exitCode, out } = await run("forget", id, ...by, "--yes");
    expect(exitCode).toBe(0);
    expect(out).toMatch(/\(failed\) is forgotten: its key may run as new\. Audit row [0-9a-f-]{36}\.$/u);
    expect(await audit("failed")).toEqual([["forget", "ada"]]);
    const { record } = await place.store.read(keyOf("failed"));
    if (record === null) throw new Error("the record-cleaner has not come yet");
    const life = await latchkeyRun("failed");
    expect(life).not.toBe(id);
  });

  test("what has completed is refused with what that would mean, until a flag says that it may run again", async () => {
    const id = await completed("paid");
    const refused = await run("forget", id, ...by, "--yes");
    expect(refused.exitCode).toBe(4);
    expect(refused.errors).toContain("Its first answer with status 201 is stored.");
    expect(refused.errors).toContain("makes it happen a second time");
    expect(await audit("paid")).toEqual([]);
    const { exitCode } = await run("forget", id, ...by, "--yes", "--may-run-again");
    expect(exitCode).toBe(0);
    expect(await audit("paid")).toEqual([["forget", "ada"]]);
    expect((await run("forget", id, ...by, "--yes", "--may-run-again")).errors).toContain("already over");
  });

  test("a 500 that a lease has stored counts as something that may have happened", async () => {
    const id = await completed("stored-500", 500);
    expect((await run("forget", id, ...by, "--yes")).errors).toContain("status 500");
  });

  test("without --yes and with --dry-run nothing is changed", async () => {
    const id = await failed("asked");
    const asked = await run("forget", id, ...by);
    expect(asked).toMatchObject({ exitCode: 2, out: "" });
    expect(asked.errors).toContain("would be forgotten: its key may run as new. Use --yes to do it.");
    expect(await run("forget", id, ...by, "--dry-run")).toMatchObject({
      exitCode: 0,
      out: expect.stringContaining("Nothing was changed."),
    });
    expect(await audit("asked")).toEqual([]);
  });

  test("by its key it needs the life, and another life is refused", async () => {
    const id = await failed("named");
    const name = ["account-1", "payments.charge", "named"];
    expect((await run("forget", ...name, ...by, "--yes")).exitCode).toBe(2);
    const other = "019ab4c2-7f1e-7c31-9a52-3d0f6b8e4a17";
    expect((await run("forget", ...name, "--record", other, ...by, "--yes")).exitCode).toBe(4);
    const json = await run("forget", ...name, "--record", id, ...by, "--yes", "--json");
    expect(JSON.parse(json.out)).toMatchObject({
      event: "forget",
      dryRun: false,
      record: { id, state: "failed" },
    });
  });

  test.each([
    ["unknown", async (key: string) => bareDoubt(place, keyOf(key)), "latchkey settle"],
    ["in progress", async (key: string) => (await begin(place, keyOf(key))).id, "not finished"],
    ["retryable", retryable, "latchkey retry"],
  ])("what is %s is refused", async (state, make, message) => {
    const id = await make(`forget-${state}`);
    const before = await audit(`forget-${state}`);
    const { exitCode, errors } = await run("forget", id, ...by, "--yes", "--may-run-again");
    expect(exitCode).toBe(4);
    expect(errors).toContain(message);
    expect(await audit(`forget-${state}`)).toEqual(before);
  });

  test("a record that is not there, a missing reason, and a wrong name", async () => {
    expect((await run("forget", "019ab4c2-7f1e-7c31-9a52-3d0f6b8e4a17", ...by, "--yes")).exitCode).toBe(3);
    expect(
      (await run("forget", "019ab4c2-7f1e-7c31-9a52-3d0f6b8e4a17", "--operator", "a", "--yes")).exitCode,
    ).toBe(2);
    expect((await run("forget", ...by)).exitCode).toBe(2);
  });
});

/** A service that gets the key again. */
async function latchkeyRun(key: string): Promise<string> {
  const made = createLatchkey({ store: place.store });
  const operation = made.operation("payments.charge", { execution: "lease", key: "required" });
  const ran: string[] = [];
  await made.run(operation, { tenant: "account-1", key, input: null }, async ({ attempt }) => {
    ran.push(attempt.id);
  });
  expect(ran).toHaveLength(1);
  return ran[0] ?? "";
}

describe("retry", () => {
  test("what is retryable is due for a worker", async () => {
    const id = await retryable("resumed");
    expect(await place.store.settlement.resumable(["payments.charge"], 10)).toEqual([]);
    const { exitCode, out } = await run("retry", id, ...by);
    expect({ exitCode, out }).toEqual({
      exitCode: 0,
      out: expect.stringContaining("is due now for a worker"),
    });
    const [found] = await place.store.settlement.resumable(["payments.charge"], 10);
    expect(found?.id).toBe(id);
    expect((await run("retry", id, ...by)).exitCode, "a second time").toBe(4);
  });

  test("an unknown is looked up again, and stays unknown", async () => {
    const { id } = await callInDoubt(place, keyOf("asked-again"));
    expect((await run("retry", id, ...by)).out).toContain("is looked up again now");
    expect(await stateOf(place, keyOf("asked-again"))).toBe("unknown");
    const claimed = await place.store.settlement.claimUnknowns(["payments.charge"], 10, 60_000);
    expect(claimed.map(({ record }) => record.id)).toContain(id);
  });

  test.each([
    ["completed", completed, "latchkey forget"],
    ["in progress", async (key: string) => (await begin(place, keyOf(key))).id, "under way"],
  ])("what is %s is refused", async (state, make, message) => {
    const id = await make(`retry-${state}`);
    const { exitCode, errors } = await run("retry", id, ...by);
    expect(exitCode).toBe(4);
    expect(errors).toContain(message);
  });
});

test.each(["forget", "retry"])(
  "two processes that %s the same record at once: one does, one is refused",
  async (command) => {
    const key = `both-${command}`;
    const id = command === "forget" ? await failed(key) : (await callInDoubt(place, keyOf(key))).id;
    const yes = command === "forget" ? ["--yes"] : [];
    const children = ["ada", "bob"].map((operator) =>
      spawnWorker(main, {
        args: [command, id, "--operator", operator, "--reason", "Ticket 8", ...yes],
        env: { DATABASE_URL: place.url },
      }),
    );
    const codes = await Promise.all(children.map(async (child) => (await child.exited).code));
    expect(codes.sort()).toEqual([0, 4]);
    expect(await audit(key)).toHaveLength(1);
  },
);

test.runIf(isThorough)("on PGlite, by the service's config", async () => {
  const folder = mkdtempSync(join(tmpdir(), "latchkey-forget-"));
  const dataDir = join(folder, "data");
  try {
    await fillPgliteFolder(dataDir);
    const once = async () => {
      const opened = await openPglite(PGlite, { dataDir });
      const made = createLatchkey({ store: opened.store });
      const operation = made.operation("payments.charge", { execution: "transaction", writes: "none" });
      let id: string | null = null;
      await made.run(operation, { tenant: "t", key: "k", input: null }, async ({ attempt }) => {
        id = attempt.id;
      });
      await opened.close();
      return id;
    };
    const id = await once();
    expect(await once(), "a replay").toBeNull();
    const forget = ["forget", id ?? "", ...by, "--yes", "--may-run-again"];
    const { exitCode, errors } = await withConfig({ pglite: dataDir }, (config) =>
      latchkeyUnder({}, ...forget, "--config", config),
    );
    expect(exitCode, errors).toBe(0);
    const again = await once();
    expect(again).not.toBeNull();
    expect(again).not.toBe(id);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
