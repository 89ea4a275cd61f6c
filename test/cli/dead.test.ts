import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import { systemPorts } from "../../packages/latchkey/src/ports.ts";
import type { OutboxEffect } from "../../packages/latchkey/src/stores/outbox.ts";
import { startProxy } from "../support/tcp-proxy.ts";
import { keyOf, latchkey, openPlace, type Place } from "./arrange.ts";

let place: Place;
let service: ReturnType<typeof serviceOn>;
beforeAll(async () => {
  place = await openPlace();
  service = serviceOn(place);
});
afterAll(() => place.close());

/** A service that enqueues two receipts, and nobody that delivers them. */
function serviceOn({ store }: Place) {
  const made = createLatchkey({ store });
  const definition = { deduplication: "none", execute: async (_: unknown) => null } as const;
  const effects = [made.effect("receipt.send", definition), made.effect("sms.send", definition)];
  const operation = made.operation("payments.charge", { execution: "transaction" });
  return async (key: string, tenant = "account-1") => {
    await made.run(operation, { tenant, key, input: null }, async ({ attempt }) => {
      for (const [index, effect] of effects.entries()) attempt.enqueue(effect, { to: key, index });
      return { done: true };
    });
    const { record } = await store.read(keyOf(key, { tenant }));
    return store.outbox?.ofRecord(record?.id ?? "") ?? [];
  };
}

/** Kills the effects of one definition that are due. `sent`: each after a send without a reply. */
async function kill(effect: string, errorCode: string, sent = false): Promise<void> {
  const { outbox } = place.store;
  if (outbox === null) throw new Error("Postgres has an outbox");
  const claimed = await outbox.claim([{ effect, limit: 10 }], systemPorts.random.token(), 60_000);
  const claims = claimed.map(({ id, fence }) => ({ id, fence }));
  if (sent) await outbox.start(claims, 60_000);
  await outbox.end(claims.map((claim) => ({ ...claim, event: "die", errorCode, returned: false })));
}

async function deadReceipt(key: string, errorCode = "attempts-spent", sent = false): Promise<OutboxEffect> {
  const [receipt] = await service(key);
  if (receipt === undefined) throw new Error("it was enqueued");
  await kill("receipt.send", errorCode, sent);
  return receipt;
}

const effectOf = async ({ recordId, id }: OutboxEffect) =>
  (await place.store.outbox?.ofRecord(recordId))?.find((effect) => effect.id === id);
const audit = (key: string) => place.store.settlement.audit(keyOf(key));
const signed = ["--operator", "ada", "--reason", "The mail server is back"];

describe("list --dead", () => {
  test("says so when there is none, then lists them by effect and tenant, page by page", async () => {
    expect(await latchkey(place.url, "list", "--dead")).toMatchObject({
      exitCode: 0,
      out: "No effect is dead.",
    });
    const [first] = await service("list-1");
    await service("list-2", "account-2");
    await kill("receipt.send", "effect-refused");
    await kill("sms.send", "attempts-spent");
    const { out } = await latchkey(place.url, "list", "--dead");
    expect(out.split("\n")[0]).toMatch(/^CREATED +TENANT +OPERATION +KEY +EFFECT +ID +RECORD +WHY$/u);
    expect(out.split("\n")).toHaveLength(5);
    expect(out).toMatch(
      new RegExp(
        `account-1 +payments.charge +list-1 +receipt.send +${first?.id}@1 +${first?.recordId} +effect-refused`,
        "u",
      ),
    );
    const list = async (...args: readonly string[]) =>
      JSON.parse((await latchkey(place.url, "list", "--dead", "--json", ...args)).out);
    expect((await list("--effect", "sms.send")).effects).toMatchObject([
      { effect: "sms.send", key: "list-1", lastErrorCode: "attempts-spent", state: "dead" },
      { effect: "sms.send", key: "list-2" },
    ]);
    expect((await list("--tenant", "account-2", "--effect", "receipt.send")).effects).toHaveLength(1);
    expect((await list("--operation", "payments.charge", "--effect", "sms.send")).effects).toHaveLength(2);
    expect((await list("--operation", "payments.refund")).effects).toEqual([]);
    const page = await list("--limit", "3");
    expect(page.effects).toHaveLength(3);
    const rest = await list("--limit", "3", "--after", page.next);
    expect(rest).toMatchObject({ effects: [{ key: "list-2" }], next: null });
    const more = await latchkey(place.url, "list", "--dead", "--effect", "sms.send", "--limit", "1");
    expect(more.out).toMatch(
      /More: latchkey list --dead --effect sms.send --limit 1 --after \d+_[0-9a-f-]{36}$/u,
    );
  });

  test("shows nothing of what they carry", async () => {
    await deadReceipt("list-carries");
    for (const more of [[], ["--json"]]) {
      expect((await latchkey(place.url, "list", "--dead", ...more)).out).not.toContain('"to"');
    }
  });

  test.each([
    [["--dead", "--state", "unknown"]],
    [["--effect", "receipt.send"]],
    [["--dead", "--limit", "0"]],
  ])("%j is called wrongly", async (args) => {
    const { exitCode, errors, out } = await latchkey(place.url, "list", ...args);
    expect({ exitCode, out }).toEqual({ exitCode: 2, out: "" });
    expect(errors).toContain("Usage: latchkey list");
  });
});

describe("inspect", () => {
  test("shows the effects of a record, and what may be done about a dead one", async () => {
    const { id, downstreamKey } = await deadReceipt("shown", "call-in-doubt", true);
    const { out } = await latchkey(place.url, "inspect", "account-1", "payments.charge", "shown");
    for (const text of [
      "Effects",
      "1. receipt.send dead",
      id,
      downstreamKey,
      "call-in-doubt: It was sent, and its response never arrived",
      "once; 1 did not return; in doubt since",
      '{"to":"shown","index":0}',
      "2. sms.send pending",
      "not yet",
      `latchkey redrive --operator <you> --reason <why> ${id}@1`,
      `latchkey redrive --never-happened --operator <you> --reason <why> ${id}@1`,
      `latchkey discard --operator <you> --reason <why> ${id}@1`,
    ]) {
      expect(out).toContain(text);
    }
    const json = await latchkey(place.url, "inspect", "account-1", "payments.charge", "shown", "--json");
    expect(JSON.parse(json.out).effects).toMatchObject([
      { id, effect: "receipt.send", state: "dead", sends: 1, input: { value: { index: 0 } }, result: null },
      { effect: "sms.send", state: "pending", lastErrorCode: null },
    ]);
  });

  test("by the id of a dead effect, with or without its number, shows its record", async () => {
    const { id, recordId } = await deadReceipt("by-effect");
    for (const name of [id, `${id}@1`]) {
      const { exitCode, out } = await latchkey(place.url, "inspect", name);
      expect({ exitCode, out }).toMatchObject({ exitCode: 0, out: expect.stringContaining(`${id}@1`) });
      expect(out).toContain(recordId);
      expect(out).toContain("by-effect");
    }
  });

  test("a dead effect that has outlived its record is shown alone, with what may be done", async () => {
    const { id, recordId } = await deadReceipt("outlived");
    await place.pool.query("delete from latchkey.records where id = $1", [recordId]);
    const { exitCode, out } = await latchkey(place.url, "inspect", id);
    expect(exitCode).toBe(0);
    expect(out).toContain(`${recordId}, which is gone`);
    expect(out).toContain(`latchkey discard --operator <you> --reason <why> ${id}@1`);
    const json = JSON.parse((await latchkey(place.url, "inspect", id, "--json")).out);
    expect(json).toMatchObject({ effect: { id, death: `${id}@1` }, choices: [{}, {}] });
    await latchkey(place.url, "discard", id, ...signed);
    expect(await latchkey(place.url, "inspect", id)).toMatchObject({
      exitCode: 3,
      errors: expect.stringContaining(`No record, dead effect or dead message has the id ${id}`),
    });
  });

  test("does not advise to call undone what has happened", async () => {
    await deadReceipt("unstored", "result-not-stored", true);
    const { out } = await latchkey(place.url, "inspect", "account-1", "payments.charge", "unstored");
    expect(out).toContain("It has happened, but its result could not be stored.");
    expect(out).toContain("latchkey discard");
    expect(out).not.toContain("--never-happened");
  });

  test("does not advise to send again what the other side has closed", async () => {
    await deadReceipt("shut", "closed-downstream");
    const { out } = await latchkey(place.url, "inspect", "account-1", "payments.charge", "shut");
    expect(out).toContain("latchkey discard");
    expect(out).not.toContain("latchkey redrive");
  });
});

describe("redrive and discard", () => {
  test.each(["redrive", "discard"])("%s --dry-run says what would be done, and does not", async (event) => {
    const effect = await deadReceipt(`dry-${event}`);
    const dry = (...args: readonly string[]) => latchkey(place.url, event, ...args, "--dry-run", ...signed);
    const { exitCode, out } = await dry(`${effect.id}@1`);
    expect({ exitCode, out }).toMatchObject({ exitCode: 0, out: expect.stringContaining("would be") });
    expect(out).toContain("Nothing was changed");
    expect(JSON.parse((await dry(effect.id, "--json")).out)).toMatchObject({
      dryRun: true,
      decided: [{ id: effect.id, kind: "effect", audit: null, done: true }],
    });
    expect(await dry(`${effect.id}@2`)).toMatchObject({
      exitCode: 4,
      errors: expect.stringContaining("has died again"),
    });
    expect((await effectOf(effect))?.state).toBe("dead");
    expect(await audit(`dry-${event}`)).toEqual([]);
    await latchkey(place.url, event, effect.id, ...signed);
    expect(await dry(effect.id), "it is not dead any more").toMatchObject({ exitCode: 4 });
  });

  test("redriven, it is due again, and a doubt stays", async () => {
    const receipt = await deadReceipt("redriven", "call-in-doubt", true);
    const { exitCode, out, errors } = await latchkey(place.url, "redrive", receipt.id, ...signed);
    expect({ exitCode, errors }).toEqual({ exitCode: 0, errors: "" });
    expect(out).toContain(`${receipt.id}: dead → pending, due now (redrive), audit row`);
    const now = await effectOf(receipt);
    expect(now).toMatchObject({ state: "pending", sends: 0, downstreamKey: receipt.downstreamKey });
    expect(now?.doubtfulSince, "still in doubt").not.toBeNull();
    expect(await audit("redriven")).toMatchObject([
      { event: "redrive", actor: "ada", reason: "The mail server is back", proof: "operator" },
    ]);
    const shown = await latchkey(place.url, "inspect", "account-1", "payments.charge", "redriven");
    expect(shown.out).toContain("dead → pending (redrive) by ada");
  });

  test("with --never-happened nothing is in doubt any more", async () => {
    const receipt = await deadReceipt("never", "call-in-doubt", true);
    expect(await latchkey(place.url, "redrive", receipt.id, "--never-happened", ...signed)).toMatchObject({
      exitCode: 0,
    });
    expect(await effectOf(receipt)).toMatchObject({ state: "pending", doubtfulSince: null });
  });

  test.each(["redrive", "discard"])("a late %s about a death before this one is refused", async (command) => {
    const receipt = await deadReceipt(`late-${command}`);
    const listed = async () => {
      const { out } = await latchkey(place.url, "list", "--dead", "--json");
      const { effects } = JSON.parse(out) as { effects: { id: string; death: string }[] };
      return effects.find(({ id }) => id === receipt.id)?.death ?? "";
    };
    const first = await listed();
    expect(await latchkey(place.url, "redrive", first, ...signed)).toMatchObject({ exitCode: 0 });
    await kill("receipt.send", "call-in-doubt", true);
    for (const late of [first, receipt.id]) {
      const { exitCode, errors, out } = await latchkey(place.url, command, late, ...signed);
      expect({ exitCode, out }).toEqual({ exitCode: 4, out: "" });
      expect(errors).toContain(`${late} has died again`);
      expect(errors).toContain(await listed());
    }
    expect(await effectOf(receipt)).toMatchObject({ state: "dead", lastErrorCode: "call-in-doubt" });
    expect(await audit(`late-${command}`)).toHaveLength(1);
    const second = await listed();
    expect(second).not.toBe(first);
    const done = await latchkey(place.url, command, second, ...signed, "--json");
    expect(done.exitCode).toBe(0);
    expect(JSON.parse(done.out)).toMatchObject({ decided: [{ id: second, kind: "effect", done: true }] });
  });

  test("discarded, it counts as delivered", async () => {
    const receipt = await deadReceipt("discarded");
    const { exitCode, out } = await latchkey(place.url, "discard", receipt.id, ...signed, "--json");
    expect(exitCode).toBe(0);
    const [entry] = await audit("discarded");
    expect(JSON.parse(out)).toEqual({
      event: "discard",
      dryRun: false,
      operator: "ada",
      reason: "The mail server is back",
      decided: [{ id: receipt.id, kind: "effect", done: true, audit: entry?.id }],
    });
    expect(await effectOf(receipt)).toMatchObject({ state: "delivered" });
  });

  test("what is not dead, or not there, is refused, and the others are decided", async () => {
    const receipt = await deadReceipt("mixed");
    const [, waiting] = await service("mixed-waiting");
    const absent = systemPorts.random.uuid(0);
    const ids = [waiting?.id ?? "", receipt.id, absent];
    const { exitCode, out, errors } = await latchkey(place.url, "redrive", ...ids, ...signed);
    expect(exitCode).toBe(4);
    expect(out.split("\n")).toEqual([expect.stringContaining(receipt.id)]);
    expect(errors.split("\n")).toEqual([
      expect.stringContaining(`${waiting?.id} is not a dead effect or message`),
      expect.stringContaining(`${absent} is not a dead effect or message`),
    ]);
    expect(await effectOf(receipt)).toMatchObject({ state: "pending" });
    expect(await latchkey(place.url, "redrive", receipt.id, ...signed), "once more").toMatchObject({
      exitCode: 4,
    });
    expect(await audit("mixed")).toHaveLength(1);
  });

  test("a lost reply: it is decided once, and the command says that it is done", async () => {
    const receipt = await deadReceipt("lost");
    const proxy = await startProxy({ to: { port: Number(new URL(place.url).port) } });
    let deciding = false;
    proxy.observe((message) => {
      if (message.direction === "up" && message.bytes.toString("latin1").includes("redrive")) deciding = true;
    });
    const hold = proxy.holdReplyWhen(() => deciding);
    const command = latchkey(proxy.url(place.url), "redrive", receipt.id, ...signed);
    await hold.held();
    expect(await audit("lost"), "it has been written").toHaveLength(1);
    hold.drop();
    expect(await command).toMatchObject({ exitCode: 0, out: expect.stringContaining("dead → pending") });
    expect(await audit("lost")).toHaveLength(1);
    await proxy.close();
  });

  const id = "01890000-0000-7000-8000-000000000001";
  test.each([
    ["no id", signed],
    ["what is no id", ["receipt.send", ...signed]],
    ["what names no death", [`${id}@0`, ...signed]],
    ["no operator", [id, "--reason", "x"]],
    ["a blank reason", [id, "--operator", "ada", "--reason", " "]],
    ["what it does not know", [id, ...signed, "--force"]],
  ])("%s: called wrongly", async (_, args) => {
    for (const command of ["redrive", "discard"]) {
      const { exitCode, errors, out } = await latchkey(place.url, command, ...args);
      expect({ exitCode, out }).toEqual({ exitCode: 2, out: "" });
      expect(errors).toContain(`Usage: latchkey ${command}`);
    }
    expect(await latchkey(place.url, "discard", id, "--never-happened", ...signed)).toMatchObject({
      exitCode: 2,
    });
  });
});
