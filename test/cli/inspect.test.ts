import { afterAll, beforeAll, expect, test } from "vitest";
import { fetchProtect } from "../../packages/latchkey/src/http/fetch/fetch.ts";
import { createLatchkey } from "../../packages/latchkey/src/index.ts";
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
  latchkeyUnder,
  openPlace,
  ownerOf,
  type Place,
  sendCall,
} from "./arrange.ts";

let place: Place;
beforeAll(async () => {
  place = await openPlace();
});
afterAll(() => place.close());

const inspect = (key: string, ...more: readonly string[]) =>
  latchkey(place.url, "inspect", "account-1", "payments.charge", key, ...more);

test("shows an unknown with its steps, the reason in words, and what may be done", async () => {
  const { id, downstream } = await callInDoubt(place, keyOf("order-1"));
  const { exitCode, out, errors } = await inspect("order-1");
  expect({ exitCode, errors }).toEqual({ exitCode: 0, errors: "" });
  for (const text of [
    "account-1",
    "payments.charge",
    "order-1",
    id,
    "call-in-doubt: A call was sent, and its response never arrived.",
    "1. payment_recorded (phase) finished",
    '{"id":7}',
    "2. charged (call) started",
    "provider.charge",
    downstream,
    "once, first",
    "how it ended is not known",
    '{"amount":500}',
    "409 outcome-unknown",
    "it waits for a person",
    "latchkey settle --call charged --result '<json>' --operator <you> --reason <why> ",
    `--reason <why> ${id}`,
    "latchkey settle --not-executed",
  ]) {
    expect(out).toContain(text);
  }
  expect(out).not.toContain("Settled");
});

test("shows what the request asked for, where the service keeps that", async () => {
  const service = createLatchkey({ store: place.store, strict: false });
  const operation = service.operation("orders.create", { summary: { fields: ["amount"] } });
  const handle = fetchProtect(service, { tenant: () => "account-1" })(operation, async () => new Response());
  await handle(
    new Request("http://localhost/orders?x=1", {
      method: "POST",
      headers: { "Idempotency-Key": "summed", "Content-Type": "application/json" },
      body: JSON.stringify({ amount: 500, card: "card-number" }),
    }),
  );
  const { out } = await latchkey(place.url, "inspect", "account-1", "orders.create", "summed");
  expect(out).toMatch(/^Request +POST \/orders \{"amount":500\}$/mu);
  expect(out).not.toContain("card-number");
});

test("shows the trace in which it began, and no text that is none", async () => {
  const traceId = "0af7651916cd43dd8448eb211c80319c";
  let given = "";
  const service = createLatchkey({
    store: place.store,
    tracing: {
      inSpan: (_, work) => work({ traceparent: given, set() {}, link() {}, fail() {} }),
    },
  });
  const operation = service.operation("orders.trace", { writes: "none" });
  for (const [key, traceparent] of Object.entries({
    traced: `00-${traceId}-b7ad6b7169203331-01`,
    not: traceId,
  })) {
    given = traceparent;
    await service.run(operation, { tenant: "account-1", key, input: {} }, async () => 1);
    const { out } = await latchkey(place.url, "inspect", "account-1", "orders.trace", key);
    expect(out.match(/^Trace +(\S+)$/mu)?.[1]).toBe(key === "traced" ? traceId : undefined);
  }
});

test("shows the requests that came again, and how many are not kept one by one", async () => {
  const service = createLatchkey({ store: place.store });
  const operation = service.operation("orders.again", { writes: "none" });
  const run = () => service.run(operation, { tenant: "account-1", key: "again", input: {} }, async () => 1);
  await run();
  const inspectAgain = () => latchkey(place.url, "inspect", "account-1", "orders.again", "again");
  expect((await inspectAgain()).out).not.toContain("came again");
  for (let count = 0; count < 35; count += 1) await run();
  await service.close();
  const { out } = await inspectAgain();
  expect(out.match(/Z got the stored answer$/gmu)).toHaveLength(30);
  expect(out).toMatch(
    /Repeated requests\n(?: {2}\S+Z got the stored answer\n){10} {2}\(5 more, not stored individually\)\n/u,
  );
});

test("the same as JSON", async () => {
  const { id, downstream } = await callInDoubt(place, keyOf("order-2"));
  const { out } = await inspect("order-2", "--json");
  expect(JSON.parse(out)).toMatchObject({
    tenant: "account-1",
    scope: "payments.charge",
    key: "order-2",
    operation: "payments.charge",
    id,
    state: "unknown",
    attempt: 1,
    createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/u),
    reconcileAfter: null,
    lastErrorCode: "call-in-doubt",
    reason: expect.stringContaining("A call was sent"),
    input: { value: { amount: 500 } },
    answer: null,
    recoveryPoint: "payment_recorded",
    steps: [
      {
        name: "payment_recorded",
        kind: "phase",
        state: "finished",
        result: { value: { id: 7 } },
        call: null,
      },
      {
        name: "charged",
        kind: "call",
        state: "started",
        result: null,
        call: { effect: "provider.charge", downstreamKey: downstream, sends: 1, generation: 0 },
      },
    ],
    audit: [],
    next: expect.any(Array),
    choices: expect.any(Array),
  });
});

test("shows who settled what, and why", async () => {
  await callInDoubt(place, keyOf("order-3"));
  const args = ["--operator", "ada", "--reason", "The provider's page says so"];
  const { record } = await place.store.read(keyOf("order-3"));
  await latchkey(place.url, "settle", record?.id ?? "", "--not-executed", ...args);
  const { out } = await inspect("order-3");
  expect(out).toMatch(/unknown → retryable \(settle_not_executed\) by ada, proof operator/u);
  expect(out).toContain("The provider's page says so");
  expect(out).toContain("continues it after the last finished step");
  expect(out, "nothing is left to settle").not.toContain("What you may do");
});

test("shows a running attempt and a completed one", async () => {
  const owner = ownerOf(keyOf("order-4"), await begin(place, keyOf("order-4")));
  const running = await inspect("order-4");
  expect(running.out).toMatch(/State\s+in_progress/u);
  expect(running.out).toContain("Its owner holds it until");
  await complete(place, owner, jsonAnswer(201, { charge: "ch_1" }));
  const completed = await inspect("order-4");
  expect(completed.out).toMatch(/Answer\s+201 \{"charge":"ch_1"\}/u);
  expect(completed.out).toContain("Retries get the stored answer until");
});

test("takes the key as the client sent it: bare, quoted, with spaces around", async () => {
  const id = await bareDoubt(place, keyOf("order-5"));
  for (const sent of ["order-5", '"order-5"', ' "order-5" ']) {
    expect(await inspect(sent)).toMatchObject({ exitCode: 0, out: expect.stringContaining(id) });
  }
});

test("takes a key that no header can carry, and one with quotes of its own", async () => {
  await bareDoubt(place, keyOf("größe, 7"));
  await bareDoubt(place, keyOf('"quoted"'));
  expect((await inspect("größe, 7")).exitCode).toBe(0);
  expect((await inspect('"quoted"')).exitCode).toBe(0);
  const pasted = (await inspect('"quoted"')).out.match(/--not-executed .* (\S+)$/mu)?.[1];
  expect(pasted).toBe((await place.store.read(keyOf('"quoted"'))).record?.id);
  expect((await inspect('"\\"quoted\\""')).exitCode).toBe(0);
});

test("finds a key that is unique to a path by that path, and says so where it is not given", async () => {
  const id = await bareDoubt(place, keyOf("order-6", { scope: "payments.charge /items/1" }));
  await bareDoubt(place, keyOf("order-6", { scope: "payments.charge /items/2" }));
  const found = await inspect("order-6", "--path", "/items/1");
  expect(found).toMatchObject({ exitCode: 0, out: expect.stringContaining(id) });
  expect(found.out).toContain("payments.charge (key unique to /items/1)");
  const without = await inspect("order-6");
  expect(without).toMatchObject({ exitCode: 3, errors: expect.stringContaining("--path") });
  const elsewhere = await inspect("order-6", "--path", "/items/3");
  expect(elsewhere).toMatchObject({ exitCode: 3, errors: expect.stringContaining("path /items/3") });
  expect(await inspect("order-6", "--path", "items/1")).toMatchObject({ exitCode: 2 });
  expect(await latchkey(place.url, "inspect", id, "--path", "/items/1")).toMatchObject({ exitCode: 2 });
});

test("does not guess which of two records is meant", async () => {
  await bareDoubt(place, keyOf("twin"));
  await bareDoubt(place, keyOf("twin", { scope: "*" }));
  expect(await inspect("twin")).toMatchObject({
    exitCode: 4,
    errors: expect.stringContaining("Two records"),
  });
});

test("finds keys that are unique in the tenant by their operation", async () => {
  await bareDoubt(place, keyOf("wide", { scope: "*" }));
  expect((await inspect("wide")).out).toContain("payments.charge (key unique in the tenant)");
  const other = await latchkey(place.url, "inspect", "account-1", "payments.refund", "wide");
  expect(other.exitCode).toBe(3);
});

test("another tenant's record is not found, and neither is one that never was", async () => {
  await bareDoubt(place, keyOf("mine"));
  for (const [tenant, key] of [
    ["account-2", "mine"],
    ["account-1", "never"],
  ] as const) {
    const { exitCode, out, errors } = await latchkey(place.url, "inspect", tenant, "payments.charge", key);
    expect({ exitCode, out }).toEqual({ exitCode: 3, out: "" });
    expect(errors).toContain("There is no record");
  }
});

test("what passed a codec is called unreadable, not shown and not guessed", async () => {
  const sealed = new Uint8Array([0, 255, 1, 254]);
  const owner = ownerOf(keyOf("sealed"), await begin(place, keyOf("sealed"), sealed));
  await sendCall(place, owner, "charged", sealed);
  await endInDoubt(place, owner);
  const { out } = await inspect("sealed");
  expect(out.match(/4 bytes, not readable here/gu)).toHaveLength(2);
  expect(JSON.parse((await inspect("sealed", "--json")).out)).toMatchObject({ input: { unreadable: 4 } });
});

test("nothing that a client chose reaches the terminal as a command", async () => {
  const nasty = "\u001b[2J\u009b31m\u202e\nState completed";
  await begin(place, keyOf(nasty), bytes({ note: nasty }));
  for (const more of [[], ["--json"]]) {
    const { exitCode, out } = await inspect(nasty, ...more);
    expect(exitCode).toBe(0);
    for (const character of "\u001b\u009b\u202e") expect(out).not.toContain(character);
    expect(out).not.toMatch(/^State completed/mu);
  }
  expect(JSON.parse((await inspect(nasty, "--json")).out)).toMatchObject({
    key: nasty,
    input: { value: { note: nasty } },
  });
});

test.each([
  [[]],
  [["account-1", "payments.charge"]],
  [["account-1", "payments.charge", "k", "more"]],
  [["account-1", "payments.charge", ""]],
  [["account-1", "payments.charge", "k", "--no-such"]],
  [["account-1", "payments.charge", "k", "--schema", "Not Plain"]],
])("%j is called wrongly", async (args) => {
  const { exitCode, errors, out } = await latchkey(place.url, "inspect", ...args);
  expect({ exitCode, out }).toEqual({ exitCode: 2, out: "" });
  expect(errors).toContain("Usage: latchkey inspect");
});

test("finds a record by its id and by a downstream key", async () => {
  const { id, downstream } = await callInDoubt(place, keyOf("by-id"));
  for (const name of [id, downstream]) {
    const { exitCode, out, errors } = await latchkey(place.url, "inspect", name);
    expect({ exitCode, errors }).toEqual({ exitCode: 0, errors: "" });
    expect(out).toMatch(/Key\s+by-id/u);
    expect(out).toContain(
      `latchkey settle --call charged --result '<json>' --operator <you> --reason <why> ${id}`,
    );
  }
  const there = await latchkey(place.url, "inspect", id, "--schema", "latchkey");
  expect(there.out, "what may be done is done where one has looked").toContain(
    `latchkey settle --not-executed --schema latchkey --operator <you> --reason <why> ${id}`,
  );
  const unknownId = "019f0c3a-7f00-7000-8000-000000000001";
  expect(await latchkey(place.url, "inspect", unknownId)).toMatchObject({ exitCode: 3 });
});

test("says of a key whose transaction runs that it is running now", async () => {
  const service = createLatchkey({ store: place.store });
  const operation = service.operation("payments.pay");
  const started = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  const running = service.run(operation, { tenant: "account-1", key: "now", input: null }, async ({ tx }) => {
    await (tx as { query(text: string): Promise<unknown> }).query("select 1");
    started.resolve();
    await release.promise;
  });
  await started.promise;
  const ask = () => latchkey(place.url, "inspect", "account-1", "payments.pay", '"now"');
  const { exitCode, errors } = await ask();
  release.resolve();
  await running;
  expect({ exitCode, errors }).toMatchObject({
    exitCode: 3,
    errors: expect.stringContaining("its transaction is running"),
  });
  expect(errors).not.toContain("never arrived");
  expect(await ask()).toMatchObject({ exitCode: 0 });
});

test("finds a record by the keyHash of an event, with the service's secret", async () => {
  const logSecret = "a secret of the service";
  const hashes: string[] = [];
  const service = createLatchkey({
    store: place.store,
    logSecret,
    keySecret: "0123456789abcdef0123456789abcdef",
    onEvent: (event) => void ("keyHash" in event && hashes.push(event.keyHash)),
  });
  const operation = service.operation("hashes.find", { execution: "lease" });
  let recordId = "";
  await service.run(operation, { tenant: "account-9", key: "order-1", input: {} }, async ({ attempt }) => {
    recordId = attempt.id;
  });
  const keyHash = hashes.at(-1) ?? "";
  const env = { DATABASE_URL: place.url, LATCHKEY_LOG_SECRET: logSecret };
  for (const name of [["account-9", "hashes.find", keyHash], [keyHash]]) {
    const { exitCode, out, errors } = await latchkeyUnder(env, "inspect", ...name);
    expect([exitCode, errors, out.includes(recordId)]).toEqual([0, "", true]);
  }
  const others = await latchkeyUnder(env, "inspect", "account-8", "hashes.find", keyHash);
  expect([others.exitCode, others.out]).toEqual([3, ""]);
  const otherSecret = await latchkeyUnder({ ...env, LATCHKEY_LOG_SECRET: "another" }, "inspect", keyHash);
  expect([otherSecret.exitCode, otherSecret.errors]).toEqual([3, expect.stringContaining("logSecret")]);
  const without = await latchkey(place.url, "inspect", keyHash);
  expect([without.exitCode, without.errors]).toEqual([2, expect.stringContaining("LATCHKEY_LOG_SECRET")]);
  const settled = await latchkeyUnder(env, "settle", keyHash, "--not-executed");
  expect([settled.exitCode, settled.errors]).toEqual([2, expect.stringContaining("latchkey inspect")]);
});

test("a client's key may look like a keyHash", async () => {
  const key = "0123456789ab";
  const owner = await begin(place, keyOf(key));
  expect((await inspect(key)).out).toContain(owner.id);
  const never = await inspect("0123456789ac");
  expect([never.exitCode, never.errors]).toEqual([3, expect.stringContaining("LATCHKEY_LOG_SECRET")]);
});
