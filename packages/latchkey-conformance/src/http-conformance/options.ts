/** Options: what a service may configure reaches the wire through every adapter. */
import assert from "node:assert/strict";
import { parseHttpDate } from "latchkey/internal";
import { assertProblem, assertReplay, assertRetryAfter, type HttpCase } from "./case.ts";
import { type HttpAnswer, newKey } from "./client.ts";

const invalid = { status: 400, retryable: false, safeNewKey: true } as const;
const minuteMs = 60_000;

function expiryOf(answer: HttpAnswer): number {
  const text = answer.header("idempotency-expires") ?? "";
  const expiresAt = parseHttpDate(text);
  assert.ok(expiresAt !== null, `"${text}" must be an HTTP date`);
  return expiresAt;
}

const unwanted: readonly (readonly [what: string, settings: object, key: string])[] = [
  ["short", { minLength: 16 }, "k-15-characters"],
  ["of another format", { pattern: /^[0-9a-f-]{36}$/u }, "order-1"],
  ["like an e-mail address", { refusePersonal: true }, "ada@example.org"],
  ["like a phone number", { refusePersonal: true }, "+4915112345678"],
];

export const optionCases: readonly HttpCase[] = [
  {
    name: "options: a stored answer says how long it is kept, the first time and on replay; others do not",
    async run({ start, advance }, execution) {
      const settings = { expiresHeader: "Idempotency-Expires" };
      const answers = [201, 429];
      const handle = async () => ({ status: answers.shift() ?? 201, body: "done" });
      const subject = await start({ execution, settings, handle });
      const key = newKey();
      const first = await subject.send({ key });
      assert.equal((await subject.send({})).header("idempotency-expires"), null, "429 is released");
      await advance(minuteMs);
      const replay = await subject.send({ key });
      assertReplay(first, replay, ["idempotency-expires"]);
      assert.equal(
        (await subject.send({ key, body: '{"amount":2}' })).header("idempotency-expires"),
        null,
        "a problem",
      );
      const later = expiryOf(await subject.send({})) - expiryOf(first);
      assert.ok(later >= minuteMs - 1_000 && later < 2 * minuteMs, `${later} ms later`);
      assert.equal(subject.starts(), 3);
    },
  },
  {
    name: "options: `methods` applies to a mounted adapter, which marks the key of a request that it lets through",
    execution: "lease",
    async run({ start, mounts }) {
      const settings = { methods: ["PUT"], markIgnored: true };
      const subject = await start({ execution: "lease", settings, options: { key: "optional" } });
      const key = newKey();
      const [first, second] = [await subject.send({ key }), await subject.send({ key })];
      const without = await subject.send({ key: null });
      assert.equal(without.header("idempotency-status"), null, "there is no key to ignore");
      if (!mounts) {
        assertReplay(first, second);
        assert.equal(
          second.header("idempotency-status"),
          null,
          "a route that is protected by name ignores `methods`",
        );
        return assert.equal(subject.starts(), 2);
      }
      for (const passed of [first, second]) {
        assert.equal(passed.status, 201);
        assert.equal(passed.header("idempotency-status"), "ignored");
        assert.equal(passed.header("idempotent-replayed"), null);
      }
      assert.equal(subject.starts(), 3);
    },
  },
  {
    name: "options: a 409 says in a header whether to retry, if the service is configured so",
    execution: "lease",
    async run({ start }) {
      const handle = async () => ({ status: 500, body: "oops" });
      const shouldRetry = async (settings: object) => {
        const subject = await start({ execution: "lease", settings, handle });
        const key = newKey();
        await subject.send({ key });
        const answer = await subject.send({ key });
        assert.equal(answer.status, 409);
        return [answer.header("stripe-should-retry"), answer.header("x-should-retry")];
      };
      assert.deepEqual(await shouldRetry({}), [null, null]);
      assert.deepEqual(await shouldRetry({ shouldRetryHeaders: true }), ["false", "false"]);
    },
  },
  ...unwanted.map(
    ([what, keySettings, key]): HttpCase => ({
      name: `options: a key that is ${what} is refused if the service is configured so, and the answer does not repeat it`,
      execution: "lease",
      async run({ start }) {
        const subject = await start({ execution: "lease", settings: { key: keySettings } });
        const answer = await subject.send({ key });
        assertProblem(answer, "invalid-key", invalid);
        assert.ok(!answer.body.includes(key), "the answer must not contain the key");
        assert.equal(subject.starts(), 0);
        const wanted = await subject.send({ key: "8e03978e-40d5-43dd-bc93-6894a57f9324" });
        assert.equal(wanted.status, 201);
      },
    }),
  ),
  {
    name: "options: a request that was first sent too long ago is refused",
    execution: "lease",
    async run({ start }) {
      const settings = { requestAge: { header: "X-First-Sent", maxMs: minuteMs } };
      const subject = await start({ execution: "lease", settings });
      const sent = (...times: string[]) =>
        subject.send({ headers: times.map((time) => ["X-First-Sent", time] as const) });
      const old = "Sun, 06 Nov 1994 08:49:37 GMT";
      assertProblem(await sent(old), "request-too-old", { status: 412, retryable: false, safeNewKey: false });
      for (const times of [["yesterday"], [old, old], [old.replace("1994", "9994")]]) {
        assertProblem(await sent(...times), "invalid-request-date", { ...invalid, safeNewKey: false });
      }
      assert.equal(subject.starts(), 0);
      assert.equal((await sent()).status, 201);
    },
  },
  {
    name: "options: a tenant over its limit is refused before anything runs; other tenants are not",
    async run({ start }, execution) {
      const used = new Map<string, number>();
      const newKeys = {
        async consume(tenant: string) {
          const points = (used.get(tenant) ?? 0) + 1;
          used.set(tenant, points);
          if (points > 1) return Promise.reject({ msBeforeNext: 1_500 });
        },
      };
      const subject = await start({ execution, limits: { newKeys } });
      const key = newKey();
      const first = await subject.send({ key });
      const refused = await subject.send({});
      assertProblem(refused, "too-many-keys", { status: 429, retryable: true, safeNewKey: false });
      assertRetryAfter(refused);
      assertReplay(first, await subject.send({ key }));
      assert.equal((await subject.send({ tenant: "tenant-2" })).status, 201);
      assert.equal(subject.starts(), 2);
    },
  },
];
