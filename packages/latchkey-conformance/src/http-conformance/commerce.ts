/** The rules of the two commerce protocols for agents: one case for each rule that a single route can show. */
import assert from "node:assert/strict";
import { acp, ucp } from "latchkey";
import { assertReplay, assertRetryAfter, createGate, type HttpCase } from "./case.ts";
import { type HttpAnswer, newKey } from "./client.ts";

const hourMs = 60 * 60 * 1000;

function assertError(answer: HttpAnswer, status: number, body: Readonly<Record<string, unknown>>): void {
  assert.equal(answer.status, status);
  assert.equal(answer.header("content-type"), "application/json");
  const { message, content, ...others } = answer.json();
  assert.deepEqual(others, body);
  assert.ok(String(message ?? content).length > 20, "must be a sentence for people");
  assert.equal(typeof (body.type === undefined ? content : message), "string");
}

const invalid = (code: string) => ({ type: "invalid_request", code });
const final = { retryable: false, safe_new_key: false };

/** A key with the 128 bits that the protocol requires. */
function longKey(): string {
  return `${newKey()}-6f1c0d5e2ab94e7f`;
}

/** A handler whose first run waits in the middle. */
function waiting() {
  const gate = createGate();
  const handle = async () => {
    await gate.pass();
    return { status: 201, body: "done" };
  };
  return { gate, handle };
}

function failingFirst() {
  let runs = 0;
  return async () => {
    runs += 1;
    return { status: runs === 1 ? 500 : 201, body: `run ${runs}` };
  };
}

const equivalence: readonly (readonly [what: string, body: string, same: boolean])[] = [
  ["another order of members", '{"b":[1,2],"a":{"d":null,"c":1}}', true],
  ["trailing zeros", '{"a":{"c":1.0,"d":null},"b":[1.00,2]}', true],
  ["white space", '{ "a": { "c": 1, "d": null }, "b": [1, 2] }', true],
  ["an absent member instead of null", '{"a":{"c":1},"b":[1,2]}', false],
  ["another order of elements", '{"a":{"c":1,"d":null},"b":[2,1]}', false],
  ["an extension's member", '{"a":{"c":1,"d":null},"b":[1,2],"discounts":[]}', false],
];
const compared = '{"a":{"c":1,"d":null},"b":[1,2]}';

const acpCases: readonly HttpCase[] = [
  {
    name: "acp: a request without a key is refused before anything runs",
    async run({ start }, execution) {
      const subject = await start({ execution, policy: acp });
      const answer = await subject.send({ key: null });
      assertError(answer, 400, invalid("idempotency_key_required"));
      assert.equal(answer.header("idempotency-key"), null);
      assert.equal(subject.starts(), 0);
    },
  },
  {
    name: "acp: a key is an opaque string of up to 255 characters",
    execution: "lease",
    async run({ start }) {
      const subject = await start({ execution: "lease", policy: acp });
      const name = newKey();
      const keys = [
        `${name} with spaces`,
        `${name},with;"others"=?`,
        `"${name}"`,
        name,
        name.padEnd(255, "k"),
      ];
      for (const key of keys) {
        const first = await subject.send({ key });
        assert.equal(first.status, 201, key);
        assert.equal(first.header("idempotent-replayed"), null, key);
        const again = await subject.send({ key });
        assertReplay(first, again, ["idempotency-key"]);
        assert.equal(again.header("idempotency-key"), key);
      }
      assert.equal(subject.starts(), keys.length);
      assertError(await subject.send({ key: "k".repeat(256) }), 400, invalid("idempotency_key_invalid"));
      assertError(await subject.send({ key: "  " }), 400, invalid("idempotency_key_invalid"));
    },
  },
  {
    name: "acp: two identities with the same key are independent",
    async run({ start }, execution) {
      const subject = await start({ execution, policy: acp });
      const key = newKey();
      const first = await subject.send({ key, tenant: "tenant-a" });
      const other = await subject.send({ key, tenant: "tenant-b", body: '{"amount":2}' });
      assert.deepEqual([first.status, other.status], [201, 201]);
      assert.equal(subject.starts(), 2);
    },
  },
  ...equivalence.map(
    ([what, body, same]): HttpCase => ({
      name: `acp: ${what} is ${same ? "the same request" : "another request"}`,
      execution: "lease",
      async run({ start }) {
        const subject = await start({ execution: "lease", policy: acp });
        const key = newKey();
        const first = await subject.send({ key, body: compared });
        const answer = await subject.send({ key, body });
        if (same) assertReplay(first, answer, ["idempotency-key"]);
        else assertError(answer, 422, invalid("idempotency_conflict"));
        assert.equal(subject.starts(), 1);
      },
    }),
  ),
  {
    name: "acp: headers are not part of the request",
    execution: "lease",
    async run({ start }) {
      const subject = await start({ execution: "lease", policy: acp });
      const key = newKey();
      const headers = (turn: string) =>
        ["Request-Id", "Timestamp", "Signature", "User-Agent", "Accept-Language"].map(
          (name) => [name, `${name} ${turn}`] as const,
        );
      const first = await subject.send({ key, headers: headers("1") });
      const again = { key, headers: headers("2"), contentType: "application/json; charset=utf-8" };
      assertReplay(first, await subject.send(again), ["idempotency-key"]);
    },
  },
  {
    name: "acp: a duplicate of a running request gets 409 with Retry-After, and every answer echoes the key",
    async run({ start }, execution) {
      const { gate, handle } = waiting();
      const subject = await start({ execution, policy: acp, handle });
      const key = newKey();
      const running = subject.send({ key });
      await gate.arrived;
      const duplicate = await subject.send({ key });
      assertError(duplicate, 409, invalid("idempotency_in_flight"));
      assertRetryAfter(duplicate);
      gate.open();
      const first = await running;
      const replay = await subject.send({ key });
      assertReplay(first, replay, ["idempotency-key"]);
      const conflict = await subject.send({ key, body: "{}" });
      assertError(conflict, 422, invalid("idempotency_conflict"));
      for (const each of [duplicate, first, replay, conflict])
        assert.equal(each.header("idempotency-key"), key);
    },
  },
  {
    name: "acp: a 5xx is not stored, and its retry is a fresh request",
    async run({ start }, execution) {
      const subject = await start({ execution, policy: acp, handle: failingFirst() });
      const key = newKey();
      const failed = await subject.send({ key });
      assert.equal(failed.status, 500);
      assert.equal(failed.header("idempotency-key"), key);
      const fresh = await subject.send({ key });
      assert.equal(fresh.body.toString(), "run 2");
      assert.equal(fresh.header("idempotent-replayed"), null);
      assertReplay(fresh, await subject.send({ key }), ["idempotency-key"]);
    },
  },
  {
    name: "acp: a handler under a lease that throws is not run again, though the protocol would allow it",
    execution: "lease",
    async run({ start }) {
      const handle = async () => {
        throw new Error("connection lost in the middle of it");
      };
      const subject = await start({ execution: "lease", policy: acp, handle });
      const key = newKey();
      assert.equal((await subject.send({ key })).status, 500);
      const answer = await subject.send({ key });
      assertError(answer, 409, { type: "processing_error", code: "idempotency_outcome_unknown" });
      assert.equal(subject.starts(), 1);
    },
  },
  retention("acp", 24, async (context, execution) => context.start({ execution, policy: acp })),
  {
    name: "acp: an unreachable store makes the service unavailable",
    async run({ start }, execution) {
      const subject = await start({ execution, policy: acp });
      subject.setStoreDown(true);
      const answer = await subject.send({ key: newKey() });
      assertError(answer, 503, { type: "service_unavailable", code: "idempotency_unavailable" });
      assertRetryAfter(answer);
      assert.equal(subject.starts(), 0);
    },
  },
  {
    name: "acp: an operation that owns its work also echoes the key",
    execution: "lease",
    served: true,
    async run({ serve }) {
      const subject = await serve({ execution: "lease", policy: acp });
      const key = newKey();
      const first = await subject.send({ target: "/serve", key });
      const replay = await subject.send({ target: "/serve", key });
      assertReplay(first, replay, ["idempotency-key"]);
      const refused = await subject.send({ target: "/serve", key, body: "{}" });
      for (const each of [first, replay, refused]) assert.equal(each.header("idempotency-key"), key);
      assertError(refused, 422, invalid("idempotency_conflict"));
    },
  },
];

/** The answer exists until the last minute; a minute after its retention the key runs as new. */
function retention(
  name: string,
  hours: number,
  start: (...of: Parameters<HttpCase["run"]>) => Promise<Started>,
): HttpCase {
  return {
    name: `${name}: an answer is stored for ${hours} hours, and then its key runs as new`,
    async run(context, execution) {
      const subject = await start(context, execution);
      const key = longKey();
      const first = await subject.send({ key });
      await context.advance(hours * hourMs - 60_000);
      assertReplay(first, await subject.send({ key }), ["idempotency-key"]);
      await context.advance(120_000);
      const fresh = await subject.send({ key, body: '{"amount":2}' });
      assert.equal(fresh.status, 201);
      assert.equal(fresh.header("idempotent-replayed"), null);
      assert.equal(subject.starts(), 2);
    },
  };
}

type Started = Awaited<ReturnType<Parameters<HttpCase["run"]>[0]["start"]>>;

const ucpCases: readonly HttpCase[] = [
  {
    name: "ucp: keys are required, and have at least 22 characters",
    execution: "lease",
    async run({ start }) {
      const subject = await start({ execution: "lease", policy: ucp });
      const refusal = { retryable: false, safe_new_key: true };
      const missing = await subject.send({ key: null });
      assertError(missing, 400, { code: "idempotency_key_required", ...refusal });
      const short = await subject.send({ key: "k".repeat(21) });
      assertError(short, 400, { code: "idempotency_key_invalid", ...refusal });
      assert.equal(subject.starts(), 0);
      assert.equal((await subject.send({ key: "1a7e9c02-5b7d-4c3f-9a61-2f0f4f7f8e10" })).status, 201);
      assert.equal((await subject.send({ key: "k".repeat(22) })).status, 201);
    },
  },
  {
    name: "ucp: a key with another body is a conflict and changes nothing; bodies are compared byte for byte",
    async run({ start }, execution) {
      const subject = await start({ execution, policy: ucp });
      const key = longKey();
      const first = await subject.send({ key, body: '{"a":1,"b":2}' });
      for (const body of ['{"b":2,"a":1}', '{"a":1, "b":2}', '{"a":1,"b":2.0}', '{"a":1,"b":3}']) {
        const conflict = await subject.send({ key, body });
        assertError(conflict, 409, { code: "idempotency_conflict", ...final });
        assert.equal(conflict.header("idempotency-key"), null);
      }
      assertReplay(first, await subject.send({ key, body: '{"a":1,"b":2}' }));
      assert.equal(subject.starts(), 1);
    },
  },
  {
    name: "ucp: a duplicate of a running request gets 409 with Retry-After",
    execution: "lease",
    async run({ start }) {
      const { gate, handle } = waiting();
      const subject = await start({ execution: "lease", policy: ucp, handle });
      const key = longKey();
      const running = subject.send({ key });
      await gate.arrived;
      const duplicate = await subject.send({ key });
      const reference = duplicate.json().operation_ref;
      assert.equal(typeof reference, "string");
      assertError(duplicate, 409, {
        code: "idempotency_in_flight",
        retryable: true,
        safe_new_key: false,
        operation_ref: reference,
      });
      assertRetryAfter(duplicate);
      gate.open();
      assertReplay(await running, await subject.send({ key }));
    },
  },
  {
    name: "ucp: it fails closed without its store",
    async run({ start }, execution) {
      const subject = await start({ execution, policy: ucp });
      subject.setStoreDown(true);
      const answer = await subject.send({ key: longKey() });
      assertError(answer, 503, { code: "idempotency_unavailable", retryable: true, safe_new_key: false });
      assertRetryAfter(answer);
      assert.equal(subject.starts(), 0);
    },
  },
  retention("ucp", 48, async (context, execution) => context.start({ execution, policy: ucp })),
];

export const commerceCases: readonly HttpCase[] = [...acpCases, ...ucpCases];
