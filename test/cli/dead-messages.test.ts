/** Dead messages in the command line: list, inspect, redrive and discard, on Postgres and through a config. */
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Message } from "../../packages/latchkey/src/index.ts";
import { latchkey, openPlace, type Place } from "./arrange.ts";
import { type ParcelService, parcelService, published } from "./configs/parcels.ts";

const config = join(import.meta.dirname, "configs/parcels-config.ts");
const bare = join(import.meta.dirname, "configs/parcels-bare.ts");
const signed = ["--operator", "ada", "--reason", "The address is known now"];

let place: Place;
let service: ParcelService;
beforeAll(async () => {
  place = await openPlace();
  process.env.PARCELS_DATABASE_URL = place.url;
  service = parcelService(place.url);
});
beforeEach(async () => {
  delete process.env.PARCELS_SECRET;
  published.length = 0;
  await place.pool.query("delete from latchkey.messages");
});
afterAll(async () => {
  await service.close();
  await place.close();
});

function parcel(id: string | null, change: Partial<Message> = {}): Message {
  return {
    id,
    source: "parcels",
    body: Buffer.from(JSON.stringify({ to: id })),
    contentType: "application/json",
    headers: {},
    redelivered: false,
    ...change,
  };
}

async function dead(id: string | null, change: Partial<Message> = {}, from = service): Promise<string> {
  const before = (await letters()).map((one) => String(one.id));
  expect(await from.inbox.consume(parcel(id, change))).toMatchObject({ settle: "dead" });
  const added = (await letters()).map((one) => String(one.id)).filter((one) => !before.includes(one));
  expect(added).toHaveLength(1);
  return added[0] ?? "";
}

const cli = (...args: readonly string[]) => latchkey(place.url, ...args);
const letters = async () => (await place.pool.query("select id from latchkey.messages")).rows;

describe("list --dead --messages", () => {
  test("says so when there is none, then lists them by operation and tenant, page by page", async () => {
    expect(await cli("list", "--dead", "--messages")).toMatchObject({
      exitCode: 0,
      out: "No message is dead.",
    });
    const first = await dead("p-1");
    await dead("p-2", { headers: { tenant: "other" } });
    await dead(null);
    const { out, errors } = await cli("list", "--dead", "--messages");
    expect(errors).toBe("");
    expect(out.split("\n")[0]).toMatch(
      /^DIED +TENANT +OPERATION +KEY +SOURCE +ID +WHY +STARTS\/FAILURES +LAST ERROR$/u,
    );
    expect(out).toMatch(new RegExp(`shop +parcels.send +p-1 +parcels +${first} +refused +0/0`, "u"));
    expect(out).toMatch(/shop +parcels.send +- +parcels +\S+ +missing-id/u);
    const list = async (...args: readonly string[]) =>
      JSON.parse((await cli("list", "--dead", "--messages", "--json", ...args)).out);
    expect((await list("--tenant", "other")).messages).toMatchObject([{ key: "p-2", reason: "refused" }]);
    expect((await list("--operation", "another")).messages).toEqual([]);
    const page = await list("--limit", "2");
    expect(page.messages).toHaveLength(2);
    expect(await list("--limit", "2", "--after", page.next)).toMatchObject({
      messages: [{ key: null, reason: "missing-id" }],
      next: null,
    });
    const more = await cli("list", "--dead", "--messages", "--tenant", "shop", "--limit", "1");
    expect(more.out).toMatch(
      /More: latchkey list --dead --messages --tenant shop --limit 1 --after \d+_[0-9a-f-]{36}$/u,
    );
  });

  test("shows what they carry only when asked", async () => {
    await dead("p-carries");
    for (const more of [[], ["--json"]]) {
      expect((await cli("list", "--dead", "--messages", ...more)).out).not.toContain('"to"');
    }
    expect((await cli("list", "--dead", "--messages", "--payload")).out).toContain('{"to":"p-carries"}');
  });

  test("calls encoded what has passed a codec, and decodes it with the service's config", async () => {
    process.env.PARCELS_SECRET = "k".repeat(32);
    const encrypted = parcelService(place.url);
    await dead("p-secret", {}, encrypted);
    await encrypted.close();
    const list = ["list", "--dead", "--messages", "--payload"];
    const without = await cli(...list);
    expect(without.out).toMatch(/\d+ bytes, not readable here/u);
    expect(without.out).not.toContain('"to"');
    expect((await cli(...list, "--config", config)).out).toContain('{"to":"p-secret"}');
    process.env.PARCELS_SECRET = "x".repeat(32);
    expect((await cli(...list, "--config", config)).out).toContain("which the service's codec rejects");
  });

  test("the list of dead effects says that there are dead messages, too", async () => {
    await dead("p-hint");
    expect(await cli("list", "--dead")).toMatchObject({
      exitCode: 0,
      out: "No effect is dead.",
      errors: expect.stringContaining("latchkey list --dead --messages"),
    });
  });

  test.each([
    [["--messages"]],
    [["--dead", "--payload"]],
    [["--dead", "--messages", "--effect", "receipt.send"]],
    [["--dead", "--messages", "--state", "unknown"]],
    [["--dead", "--messages", "--config", config, "--schema", "other"]],
  ])("%j is called wrongly", async (args) => {
    const { exitCode, errors, out } = await cli("list", ...args);
    expect({ exitCode, out }).toEqual({ exitCode: 2, out: "" });
    expect(errors).toContain("Usage: latchkey list");
  });
});

describe("inspect", () => {
  test("shows one, why it is dead and what may be done; its payload when asked", async () => {
    const id = await dead("p-shown");
    const { out } = await cli("inspect", id);
    for (const text of [
      `Message       ${id}`,
      "refused: Its handler refused it for good.",
      "p-shown",
      "--payload shows it",
      `latchkey redrive --config <file> --operator <you> --reason <why> ${id}`,
      `latchkey discard --operator <you> --reason <why> ${id}`,
    ]) {
      expect(out).toContain(text);
    }
    expect(out).not.toContain('"to"');
    expect((await cli("inspect", id, "--payload")).out).toContain('{"to":"p-shown"}');
    expect(
      JSON.parse((await cli("inspect", id, "--payload", "--json", "--config", config)).out),
    ).toMatchObject({
      id,
      tenant: "shop",
      key: "p-shown",
      reason: "refused",
      payload: {
        value: {
          body: { to: "p-shown" },
          bodyEncoding: "json",
          base64: Buffer.from('{"to":"p-shown"}').toString("base64"),
        },
      },
    });
  });

  test("bytes that are no text are shown in base64 where the codec is known", async () => {
    const id = await dead("p-bytes", { body: Buffer.from([0xff, 0x00]) });
    expect((await cli("inspect", id, "--payload")).out).toContain("2 bytes, not readable here");
    expect((await cli("inspect", id, "--payload", "--config", config)).out).toContain("(base64) /wA=");
  });

  test("does not advise to redrive what would die of the same again", async () => {
    const id = await dead("x".repeat(300));
    const { out } = await cli("inspect", id);
    expect(out).toContain("latchkey discard");
    expect(out).not.toContain("latchkey redrive");
  });

  test("an id of nothing: exit code 3", async () => {
    const absent = "01890000-0000-7000-8000-000000000001";
    expect(await cli("inspect", absent)).toMatchObject({
      exitCode: 3,
      errors: expect.stringContaining(absent),
    });
    expect(await cli("inspect", "not-an-id")).toMatchObject({ exitCode: 2 });
    expect(await cli("inspect", "t", "o", "k", "--payload")).toMatchObject({ exitCode: 2 });
  });
});

describe("redrive and discard", () => {
  test("redriven, it is published under its id, runs once, and its letter is gone", async () => {
    const id = await dead("p-again");
    const { exitCode, out, errors } = await cli("redrive", id, "--config", config, ...signed);
    expect({ exitCode, errors }).toEqual({ exitCode: 0, errors: "" });
    expect(out).toMatch(
      new RegExp(`^${id}: dead → published again \\(redrive\\), audit row [0-9a-f-]{36}\\.$`, "u"),
    );
    expect(await letters()).toEqual([]);
    expect(published).toMatchObject([
      { messageId: "p-again", tenant: "shop", contentType: "application/json" },
    ]);
    const again = parcel("p-again", { body: published[0]?.body ?? Buffer.alloc(0) });
    service.refuse(false);
    expect(await service.inbox.consume(again)).toEqual({ settle: "ack", because: "executed" });
    service.refuse(true);
    expect(await service.inbox.consume({ ...again, redelivered: true })).toEqual({
      settle: "ack",
      because: "duplicate",
    });
    const audit = await place.store.settlement.audit({
      tenant: "shop",
      scope: "parcels.send",
      key: "p-again",
    });
    expect(audit.map(({ event, actor }) => [event, actor])).toEqual([
      ["redrive", "ada"],
      ["redrive", "ada"],
    ]);
  });

  test("without a `republish` nothing is changed", async () => {
    const id = await dead("p-stays");
    for (const more of [[], ["--config", bare]]) {
      const { exitCode, errors, out } = await cli("redrive", id, ...more, ...signed);
      expect({ exitCode, out }).toEqual({ exitCode: 4, out: "" });
      expect(errors).toContain(`${id} is a message: publishing it again needs a --config with \`republish\``);
    }
    expect(await letters()).toEqual([{ id }]);
  });

  test("one that cannot be published stays, and the same command goes on with it", async () => {
    const id = await dead("p-down");
    process.env.PARCELS_BROKER_DOWN = "p-down";
    const down = await cli("redrive", id, "--config", config, ...signed);
    delete process.env.PARCELS_BROKER_DOWN;
    expect(down).toMatchObject({ exitCode: 1, out: "" });
    expect(down.errors).toContain(`${id} could not be published again and stays dead: the broker is down`);
    expect(await letters()).toHaveLength(1);
    expect(await cli("redrive", id, "--config", config, ...signed)).toMatchObject({
      exitCode: 0,
      errors: "",
    });
    expect([published.length, await letters()]).toEqual([1, []]);
  });

  test("as JSON it reports, too, what was decided before one that cannot be published", async () => {
    const [first, second] = [await dead("p-up"), await dead("p-down")];
    process.env.PARCELS_BROKER_DOWN = "p-down";
    const { exitCode, out, errors } = await cli(
      "redrive",
      first,
      second,
      "--config",
      config,
      "--json",
      ...signed,
    );
    delete process.env.PARCELS_BROKER_DOWN;
    expect(exitCode).toBe(1);
    expect(errors).toContain(`${second} could not be published again`);
    expect(JSON.parse(out)).toMatchObject({
      event: "redrive",
      decided: [{ id: first, kind: "message", done: true }],
    });
    expect(await letters()).toHaveLength(1);
  });

  test("discarded, it is gone; an id that is of neither says so, and the others are decided", async () => {
    const id = await dead("p-gone");
    const absent = "01890000-0000-7000-8000-000000000001";
    const { exitCode, out, errors } = await cli("discard", absent, id, ...signed);
    expect(exitCode).toBe(4);
    expect(out).toContain(`${id}: dead → removed (discard), audit row`);
    expect(errors).toBe(`${absent} is not a dead effect or message. Nothing was changed.`);
    expect(await letters()).toEqual([]);
    const json = await cli("discard", id, ...signed, "--json");
    expect(json.exitCode).toBe(4);
    expect(JSON.parse(json.out)).toEqual({
      event: "discard",
      dryRun: false,
      operator: "ada",
      reason: "The address is known now",
      decided: [{ id, kind: null, done: false, audit: null }],
    });
  });
});
