import { writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { scratchDirectory } from "../support/scratch.ts";
import { startProxy } from "../support/tcp-proxy.ts";
import {
  bareDoubt,
  begin,
  bytes,
  callInDoubt,
  complete,
  endInDoubt,
  jsonAnswer,
  keyOf,
  latchkey,
  openPlace,
  ownerOf,
  type Place,
  resumeIntoDoubt,
  stateOf,
} from "./arrange.ts";

let place: Place;
beforeAll(async () => {
  place = await openPlace();
});
afterAll(() => place.close());

const signed = ["--operator", "ada", "--reason", "Looked it up"];
const settle = async (key: string, ...more: readonly string[]) => {
  const { record } = await place.store.read(keyOf(key));
  const id = record?.id ?? "019f0c3a-7f00-7000-8000-000000000001";
  return latchkey(place.url, "settle", "account-1", "payments.charge", key, "--record", id, ...more);
};
const audit = (key: string) => place.store.settlement.audit(keyOf(key));

async function journal(key: string) {
  const { record } = await place.store.read(keyOf(key));
  return record && (await place.store.journal.read(keyOf(key), record.id));
}

describe("each outcome, with its audit row", () => {
  test("a call that happened: its result is stored and a worker may go on at once", async () => {
    const { id } = await callInDoubt(place, keyOf("call"));
    const { exitCode, out, errors } = await settle(
      "call",
      "--call",
      "charged",
      "--result",
      '{"id":"ch_1"}',
      ...signed,
    );
    expect({ exitCode, errors }).toEqual({ exitCode: 0, errors: "" });
    expect(out).toContain("Settled: unknown → retryable (settle_call)");
    expect(await stateOf(place, keyOf("call"))).toBe("retryable");
    expect((await journal("call"))?.steps[1]).toMatchObject({
      state: "finished",
      result: bytes({ id: "ch_1" }),
    });
    expect(await place.store.settlement.resumable(["payments.charge"], 10)).toMatchObject([{ id }]);
    expect(await audit("call")).toMatchObject([
      {
        event: "settle_call",
        actor: "ada",
        proof: "operator",
        reason: "Looked it up",
        from: "unknown",
        to: "retryable",
        recordId: id,
      },
    ]);
  });

  test("not executed: the call may be sent again, its key and input stay", async () => {
    const { downstream } = await callInDoubt(place, keyOf("nothing"));
    expect(await settle("nothing", "--not-executed", ...signed)).toMatchObject({ exitCode: 0 });
    expect(await stateOf(place, keyOf("nothing"))).toBe("retryable");
    expect((await journal("nothing"))?.steps[1]).toMatchObject({
      state: "not_executed",
      downstreamKey: downstream,
      input: bytes({ amount: 500 }),
    });
  });

  test("closed on the other side: the call is made again, under a new key", async () => {
    const { downstream } = await callInDoubt(place, keyOf("closed"));
    const closed = ["--not-executed", "--proof", "closed-downstream", "--downstream-key", downstream];
    const { exitCode, errors } = await settle("closed", ...closed, ...signed);
    expect({ exitCode, errors }).toEqual({ exitCode: 0, errors: "" });
    const call = (await journal("closed"))?.steps[1];
    expect(call).toMatchObject({ state: "not_executed", generation: 1, input: bytes({ amount: 500 }) });
    expect(call).not.toMatchObject({ downstreamKey: downstream });
    expect(await audit("closed")).toMatchObject([{ actor: "ada", proof: "closed-downstream" }]);
    expect(await settle("closed", ...closed, ...signed), "the same again").toMatchObject({ exitCode: 0 });
    expect(await settle("closed", "--not-executed", ...signed), "another proof").toMatchObject({
      exitCode: 4,
    });
    expect(await audit("closed")).toHaveLength(1);
  });

  test("the other side still knows the call's key: it stays as it is and is sent again", async () => {
    const { downstream } = await callInDoubt(place, keyOf("known"));
    const known = ["--not-executed", "--proof", "downstream-deduplicates", ...signed];
    expect(await settle("known", ...known)).toMatchObject({ exitCode: 0 });
    expect((await journal("known"))?.steps[1]).toMatchObject({ state: "started", downstreamKey: downstream });
    expect(await audit("known")).toMatchObject([{ proof: "downstream-deduplicates" }]);
  });

  test("not executed, where nobody but the client can go on: no worker is asked to", async () => {
    const id = await bareDoubt(place, keyOf("bare"));
    expect(await settle("bare", "--not-executed", ...signed)).toMatchObject({ exitCode: 0 });
    const resumable = await place.store.settlement.resumable(["payments.charge"], 10);
    expect(resumable.map((record) => record.id)).not.toContain(id);
  });

  test.each([
    ["completed", 201],
    ["failed", 502],
  ] as const)("%s: retries get the answer from then on", async (outcome, status) => {
    const key = keyOf(`whole-${outcome}`);
    await callInDoubt(place, key);
    const answer = JSON.stringify({ status, headers: { Location: "/charges/7" }, body: { id: 7 } });
    const args = [`--${outcome}`, answer, "--retention-ms", "60000", ...signed];
    expect(await settle(key.key, ...args)).toMatchObject({ exitCode: 0 });
    const { record, now } = await place.store.read(key);
    if (record?.state !== outcome) throw new Error(`it is ${record?.state}`);
    expect(record.expiresAt - now).toBeGreaterThan(30_000);
    expect(record.expiresAt - now).toBeLessThanOrEqual(60_000);
    const shown = await latchkey(place.url, "inspect", "account-1", "payments.charge", key.key, "--json");
    expect(JSON.parse(shown.out).answer.value).toMatchObject({
      status,
      headers: expect.arrayContaining([["Location", "/charges/7"]]),
      body: { id: 7 },
    });
  });

  test("JSON may come from a file", async () => {
    const folder = scratchDirectory("us");
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const file = join(folder, "answer.json");
    writeFileSync(file, '{"status":200,"body":"from a file"}');
    await bareDoubt(place, keyOf("file"));
    expect(await settle("file", "--completed", `@${file}`, ...signed)).toMatchObject({ exitCode: 0 });
    expect(await stateOf(place, keyOf("file"))).toBe("completed");
    const missing = await settle("file", "--completed", `@${file}-not-there`, ...signed);
    expect(missing).toMatchObject({ exitCode: 1, errors: expect.stringContaining("ENOENT") });
  });

  test("answers in JSON when asked to", async () => {
    await callInDoubt(place, keyOf("json"));
    const { out } = await settle("json", "--not-executed", "--json", ...signed);
    expect(JSON.parse(out)).toMatchObject({
      dryRun: false,
      already: false,
      settled: { event: "settle_not_executed", actor: "ada", to: "retryable" },
      record: { state: "retryable" },
    });
  });
});

describe("refuses", () => {
  test("a record that is not unknown", async () => {
    const owner = ownerOf(keyOf("running"), await begin(place, keyOf("running")));
    const args = ["--completed", '{"status":200}', ...signed];
    expect(await settle("running", ...args)).toMatchObject({
      exitCode: 4,
      out: "",
      errors: expect.stringContaining("in_progress"),
    });
    await complete(place, owner, jsonAnswer(201, { id: 1 }));
    expect(await settle("running", ...args)).toMatchObject({
      exitCode: 4,
      errors: expect.stringContaining("completed"),
    });
    expect((await place.store.read(keyOf("running"))).record).toMatchObject({
      answer: jsonAnswer(201, { id: 1 }),
    });
    expect(await audit("running")).toEqual([]);
  });

  test("a call that is not in doubt", async () => {
    await callInDoubt(place, keyOf("other-call"));
    const other = await settle("other-call", "--call", "payment_recorded", "--result", "1", ...signed);
    expect(other).toMatchObject({
      exitCode: 4,
      errors: expect.stringContaining("the call in doubt is charged"),
    });
    await bareDoubt(place, keyOf("no-call"));
    const none = await settle("no-call", "--call", "charged", "--result", "1", ...signed);
    expect(none).toMatchObject({
      exitCode: 4,
      errors: expect.stringContaining("none of its calls is in doubt"),
    });
    expect([await stateOf(place, keyOf("other-call")), await stateOf(place, keyOf("no-call"))]).toEqual([
      "unknown",
      "unknown",
    ]);
  });

  test("the proof that another call was closed than the one in doubt", async () => {
    await callInDoubt(place, keyOf("reopened"));
    const closed = ["--not-executed", "--proof", "closed-downstream", "--downstream-key", "lk_other"];
    const refused = await settle("reopened", ...closed, ...signed);
    expect(refused).toMatchObject({ exitCode: 4, errors: expect.stringContaining("under lk_other") });
    expect(await settle("reopened", ...closed, "--dry-run", ...signed)).toMatchObject({ exitCode: 4 });
    await bareDoubt(place, keyOf("nothing-to-close"));
    const none = await settle("nothing-to-close", ...closed, ...signed);
    expect(none).toMatchObject({
      exitCode: 4,
      errors: expect.stringContaining("none of its calls is in doubt"),
    });
    expect((await journal("reopened"))?.steps[1]).toMatchObject({ state: "started", generation: 0 });
  });

  test("to write what the service's codec could not read; what needs no bytes it does", async () => {
    const owner = ownerOf(keyOf("sealed"), await begin(place, keyOf("sealed"), new Uint8Array([0, 255])));
    await endInDoubt(place, owner);
    expect(await settle("sealed", "--completed", '{"status":200}', ...signed)).toMatchObject({
      exitCode: 4,
      errors: expect.stringContaining("latchkey.settle"),
    });
    expect(await settle("sealed", "--not-executed", ...signed)).toMatchObject({ exitCode: 0 });
  });

  test("a key that was never used", async () => {
    expect(await settle("never", "--not-executed", ...signed)).toMatchObject({ exitCode: 3, out: "" });
  });

  const one = ["--not-executed"];
  test.each([
    ["no outcome", signed],
    ["no operator", [...one, "--reason", "x"]],
    ["no reason", [...one, "--operator", "ada"]],
    ["a blank reason", [...one, "--operator", "ada", "--reason", "  "]],
    ["two outcomes", [...one, "--completed", '{"status":200}', ...signed]],
    ["a proof that is none", [...one, "--proof", "trust-me", ...signed]],
    ["a proof of something else", ["--failed", '{"status":502}', "--proof", "operator", ...signed]],
    ["a closed call without its key", [...one, "--proof", "closed-downstream", ...signed]],
    ["a key without its proof", [...one, "--downstream-key", "lk_1", ...signed]],
    ["a call without its result", ["--call", "charged", ...signed]],
    ["a result without its call", [...one, "--result", "1", ...signed]],
    ["a result that is not JSON", ["--call", "charged", "--result", "ch_1", ...signed]],
    ["an answer that is not JSON", ["--completed", "done", ...signed]],
    ["an answer without a status", ["--completed", '{"body":1}', ...signed]],
    ["an answer with a status HTTP does not have", ["--completed", '{"status":99}', ...signed]],
    ["an answer with other fields", ["--completed", '{"status":200,"chargeId":1}', ...signed]],
    ["headers that are none", ["--completed", '{"status":200,"headers":{"a":{"b":1}}}', ...signed]],
    ["no headers at all", ["--completed", '{"status":200,"headers":null}', ...signed]],
    ["a header that breaks out", ["--failed", '{"status":200,"headers":{"a":"b\\r\\nc: d"}}', ...signed]],
    ["no time to keep it", ["--completed", '{"status":200}', "--retention-ms", "0", ...signed]],
  ])("%s: called wrongly, nothing changed", async (_, args) => {
    if ((await stateOf(place, keyOf("wrongly"))) === null) await bareDoubt(place, keyOf("wrongly"));
    const { exitCode, errors, out } = await settle("wrongly", ...args);
    expect({ exitCode, out }).toEqual({ exitCode: 2, out: "" });
    expect(errors).toContain("Usage: latchkey settle");
    expect(await stateOf(place, keyOf("wrongly"))).toBe("unknown");
  });
});

test("a dry run says what it would do and refuses what it would refuse", async () => {
  await callInDoubt(place, keyOf("dry"));
  const { exitCode, out } = await settle("dry", "--not-executed", "--dry-run", ...signed);
  expect(exitCode).toBe(0);
  expect(out).toContain("Would settle");
  expect(out).toContain("unknown → retryable");
  expect(out).toContain("ada: Looked it up");
  const call = ["--call", "nonsense", "--result", "1"];
  expect(await settle("dry", ...call, "--dry-run", ...signed)).toMatchObject({ exitCode: 4 });
  const json = await settle("dry", "--not-executed", "--dry-run", "--json", ...signed);
  expect(JSON.parse(json.out)).toMatchObject({ dryRun: true, to: "retryable", record: { state: "unknown" } });
  expect(await stateOf(place, keyOf("dry"))).toBe("unknown");
  expect(await audit("dry")).toEqual([]);
  await settle("dry", "--not-executed", ...signed);
  expect(await settle("dry", "--not-executed", "--dry-run", ...signed)).toMatchObject({ exitCode: 4 });
});

describe("asked twice", () => {
  test.each([
    [
      "call",
      ["--call", "charged", "--result", '{"id":"ch_1"}'],
      ["--call", "charged", "--result", '{"id":"ch_2"}'],
    ],
    ["completed", ["--completed", '{"status":201}'], ["--completed", '{"status":200}']],
    ["not executed", ["--not-executed"], ["--failed", '{"status":502}']],
  ])("%s: the same is done already, something else is refused", async (name, args, others) => {
    const key = `twice-${name}`;
    await callInDoubt(place, keyOf(key));
    expect(await settle(key, ...args, ...signed)).toMatchObject({ exitCode: 0 });
    const again = await settle(key, ...args, ...signed);
    expect(again).toMatchObject({ exitCode: 0, out: expect.stringContaining("Already settled like this") });
    expect(await settle(key, ...others, ...signed)).toMatchObject({ exitCode: 4 });
    const signature = ["--operator", "bob", "--reason", "Looked it up"];
    expect(await settle(key, ...args, ...signature)).toMatchObject({ exitCode: 4 });
    expect(await audit(key)).toHaveLength(1);
  });

  test("a doubt that came up afterwards is not settled by the repetition", async () => {
    await callInDoubt(place, keyOf("again"));
    expect(await settle("again", "--not-executed", ...signed)).toMatchObject({ exitCode: 0 });
    await resumeIntoDoubt(place, keyOf("again"));
    const repeated = await settle("again", "--not-executed", ...signed);
    expect(repeated).toMatchObject({ exitCode: 4, errors: expect.stringContaining("unknown again") });
    expect(await stateOf(place, keyOf("again"))).toBe("unknown");
    const anew = ["--operator", "ada", "--reason", "Looked it up a second time"];
    expect(await settle("again", "--not-executed", ...anew)).toMatchObject({ exitCode: 0 });
    expect(await audit("again")).toHaveLength(2);
    await resumeIntoDoubt(place, keyOf("again"));
    expect(await settle("again", "--not-executed", ...signed), "not the last one any more").toMatchObject({
      exitCode: 4,
    });
  });

  test("ten at once settle once", async () => {
    await callInDoubt(place, keyOf("ten"));
    const all = await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        settle(
          "ten",
          "--completed",
          `{"status":201,"body":${index}}`,
          "--operator",
          "ada",
          "--reason",
          `${index}`,
        ),
      ),
    );
    expect(all.map(({ exitCode }) => exitCode).sort()).toEqual([0, ...Array(9).fill(4)]);
    const [entry, ...more] = await audit("ten");
    expect(more).toEqual([]);
    const winner = all.findIndex(({ exitCode }) => exitCode === 0);
    expect(entry?.reason).toBe(String(winner));
  });

  test("a lost reply: the settlement is not written twice, and the command says that it is done", async () => {
    const { id } = await callInDoubt(place, keyOf("lost"));
    const proxy = await startProxy({ to: { port: Number(new URL(place.url).port) } });
    let settling = false;
    proxy.observe((message) => {
      if (message.direction === "up" && /settle_not_executed/u.test(message.bytes.toString("latin1"))) {
        settling = true;
      }
    });
    const hold = proxy.holdReplyWhen(() => settling);
    const command = latchkey(proxy.url(place.url), ...["settle", id, "--not-executed", ...signed]);
    await hold.held();
    expect(await audit("lost"), "it has been written").toHaveLength(1);
    hold.drop();
    expect(await command).toMatchObject({
      exitCode: 0,
      out: expect.stringContaining("Settled: unknown → retryable"),
    });
    expect(await audit("lost")).toHaveLength(1);
    await proxy.close();
  });
});

describe("which record", () => {
  test("by its id, and by the downstream key of its call in doubt", async () => {
    for (const form of ["id", "downstream"] as const) {
      const found = await callInDoubt(place, keyOf(`named-${form}`));
      const settled = ["--call", "charged", "--result", "{}", ...signed];
      const { exitCode, errors } = await latchkey(place.url, "settle", found[form], ...settled);
      expect({ exitCode, errors }).toEqual({ exitCode: 0, errors: "" });
      expect(await stateOf(place, keyOf(`named-${form}`))).toBe("retryable");
    }
  });

  test("a key alone is refused, and a key with another life's id", async () => {
    await callInDoubt(place, keyOf("later-life"));
    const named = ["settle", "account-1", "payments.charge", "later-life"];
    const alone = await latchkey(place.url, ...named, "--not-executed", ...signed);
    expect(alone).toMatchObject({ exitCode: 2, errors: expect.stringContaining("--record <id>") });
    const earlier = ["--record", "019f0c3a-7f00-7000-8000-000000000001"];
    const refused = await latchkey(place.url, ...named, ...earlier, "--not-executed", ...signed);
    expect(refused).toMatchObject({ exitCode: 4, errors: expect.stringContaining("another life") });
    expect(await stateOf(place, keyOf("later-life"))).toBe("unknown");
  });
});

test("settles a key that is unique to a path by its record, with or without the path", async () => {
  for (const [path, ...flags] of [["/items/1"], ["/items/2", "--path", "/items/2"]] as const) {
    const key = keyOf("by-path", { scope: `payments.charge ${path}` });
    const id = await bareDoubt(place, key);
    const settleAt = (...more: readonly string[]) =>
      latchkey(
        place.url,
        ...["settle", "account-1", "payments.charge", "by-path", "--record", id],
        ...["--not-executed", ...signed, ...more],
      );
    expect(await settleAt("--path", "/items/3")).toMatchObject({ exitCode: 3 });
    expect(await settleAt(...flags)).toMatchObject({ exitCode: 0 });
    expect(await stateOf(place, key)).toBe("retryable");
  }
});
