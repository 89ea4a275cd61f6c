/** What a client that means harm may try, on the fixture: other tenants' keys, odd keys, hostile bodies, leaks. */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { frameworks } from "../registry/frameworks.ts";
import {
  type Fixture,
  type FixtureAnswer,
  type FixtureRequest,
  startFixture,
  temporaryFolder,
} from "../support/fixture.ts";
import { releaseAll } from "../support/resources.ts";
import { type FreshDatabase, freshDatabase } from "../support/shared-postgres.ts";
import { isThorough, sample } from "../support/thorough.ts";

const places = [
  ...frameworks.map(({ name }) => ({
    http: name,
    store: "memory",
  })),
  { http: "express", store: "postgres" },
  { http: "fetch", store: "postgres" },
];
const json = { "Content-Type": "application/json" };

afterAll(releaseAll);

describe.each(sample(places, 1))("$http on $store", ({ http, store }) => {
  let database: FreshDatabase | undefined;
  let fixture: Fixture;

  beforeAll(async () => {
    if (store === "postgres") database = await freshDatabase();
    fixture = await startFixture({
      http,
      store: database?.url ?? store,
      args: ["--data", `${temporaryFolder()}/data`],
    });
  });
  afterAll(async () => {
    await fixture?.worker.stop();
    await database?.drop();
  });

  test("no separator makes two tenants, or two keys, one", async () => {
    const pairs = ["|", ":", "/", ".", "*", "%00", "\\\\", "''", "--", " "].flatMap((separator) => [
      { tenant: `a${separator}b`, key: `"c"` },
      { tenant: "a", key: `"b${separator}c"` },
      { tenant: `a${separator}`, key: `"b${separator}c"` },
    ]);
    // A space at the end of a header's value does not arrive.
    const distinct = pairs.filter(({ tenant }) => !tenant.endsWith(" "));
    for (const [index, { tenant, key }] of distinct.entries()) {
      const body = { item: "book", amount: index };
      expect(await fixture.post("/orders", key, { tenant, body })).toMatchObject({
        status: 201,
        replayed: false,
      });
    }
    for (const [index, { tenant, key }] of distinct.entries()) {
      const body = { item: "book", amount: index };
      expect(await fixture.post("/orders", key, { tenant, body })).toMatchObject({ replayed: true });
    }
  });

  const deep = (depth: number) => `${"[".repeat(depth)}${"]".repeat(depth)}`;
  test.each([
    { what: "5,000 levels", raw: deep(5_000), other: deep(5_001) },
    { what: "a megabyte of levels", raw: deep(500_000), other: deep(499_999) },
    { what: "a megabyte in one member", raw: `{"a":"${"x".repeat(1_000_000)}"}`, other: '{"a":"x"}' },
    { what: "a megabyte of members", raw: members(70_000), other: members(70_001) },
    { what: "numbers past a double", raw: "[1e400,9007199254740993]", other: "[1e401,9007199254740992]" },
    { what: "an escaped NUL", raw: '{"a":"\\u0000"}', other: '{"a":"\\u0001"}' },
    { what: "a lone surrogate", raw: '{"a":"\\ud800"}', other: '{"a":"\\ud801"}' },
    { what: "__proto__", raw: '{"__proto__":{"x":1}}', other: '{"__proto__":{"x":2}}' },
  ])(
    "JSON with $what is distinguished from other JSON, or refused as a whole",
    async ({ what, raw, other }) => {
      const send = (text: string) =>
        fixture.post("/bodies/zero", "k", { tenant: `json ${what}`, raw: text, headers: json });
      const first = await send(raw);
      const [again, misuse] = [await send(raw), await send(other)];
      if (first.status === 200) {
        expect(again).toMatchObject({ status: 200, replayed: true });
        expect(misuse.json()).toMatchObject({ code: "key-misuse" });
      } else {
        // The framework's own parser does not take it: nothing ran, and nothing of it was kept.
        expect([first.status, again.status]).toEqual([400, 400]);
        expect(await fixture.starts("/bodies/zero", `json ${what}`)).toBe(misuse.status === 200 ? 1 : 0);
      }
    },
  );

  test("tenants do not learn of each other, whatever both do", async () => {
    const run = async (steps: readonly Step[], attacks: readonly Step[]) => {
      await fixture.request("/reset", { method: "POST", tenant: null });
      const transcript: unknown[] = [];
      for (const [index, step] of steps.entries()) {
        const around = attacks.slice(2 * index, 2 * index + 2);
        const [answer] = await Promise.all([
          take(fixture, "victim", step),
          ...around.map((attack) => take(fixture, "attacker", attack)),
        ]);
        transcript.push(seen(answer));
      }
      for (const route of ["/orders", "/status/500", "/optional"]) {
        transcript.push(await fixture.starts(route, "victim"));
      }
      const ledger = await fixture.ledger("victim");
      return withoutIds(JSON.stringify([transcript, ledger]));
    };
    const some = { minLength: 6, maxLength: 12 };
    const property = fc.asyncProperty(
      fc.array(step, some),
      fc.array(step, { minLength: 12, maxLength: 24 }),
      async (steps, attacks) => {
        expect(await run(steps, attacks)).toBe(await run(steps, []));
      },
    );
    await fc.assert(property, { numRuns: isThorough ? 8 : 2, endOnFailure: true });
  });

  test("neither answers nor logs say a key, and logs say no body", async () => {
    const key = "canary-key-4711";
    const body = { item: "canary-body-4711", amount: 2 };
    const tenant = "canary";
    const problems: FixtureAnswer[] = [];
    const ask = async (path: string, given: string, request: FixtureRequest = {}) =>
      problems.push(await fixture.post(path, given, { tenant, body, ...request }));
    for (const ending of ["throw", "500", "429", "release"]) await ask(`/orders?then=${ending}`, key);
    // Many at once, for what a database says about a conflict.
    await Promise.all(Array.from({ length: 20 }, () => fixture.post("/orders", key, { tenant, body })));
    await ask("/orders", key, { body: { ...body, amount: 3 } });
    await ask("/orders", key, { principal: "canary-principal-4711" });
    await ask("/status/500", key);
    await ask("/status/500", key);
    for (const odd of [`"${key}`, `${key} ${key}`, key.repeat(20), `${key}\u00fc`]) await ask("/orders", odd);
    await ask("/orders", key, { headers: { "Idempotency-Key": [key, `${key}-2`] } });
    expect(new Set(problems.map(({ status }) => status))).toEqual(new Set([400, 409, 422, 429, 500]));
    for (const problem of problems) expect(problem.text).not.toMatch(/canary-(key|body|principal)/u);
    const log = fixture.worker.stderr();
    expect(log).toContain('"type":"key_misuse"');
    expect(log).toContain('"type":"attempt_failed"');
    expect(log).not.toMatch(/canary-(key|body|principal)/u);
  });
});

function members(count: number): string {
  const names = Array.from({ length: count }, (_, index) => `"m${index}":${index % 10}`);
  return `{${names.join(",")}}`;
}

interface Step {
  readonly path: string;
  readonly key: string | null;
  readonly amount: number;
  readonly principal: string | null;
}

const step: fc.Arbitrary<Step> = fc.record({
  path: fc.constantFrom(
    "/orders",
    "/orders",
    "/orders?then=throw",
    "/orders?then=500",
    "/orders?then=400",
    "/orders?then=429",
    "/status/200",
    "/status/500",
    "/optional",
    "/bodies/large?bytes=1100000",
  ),
  key: fc.option(fc.constantFrom("k1", '"k1"', "k2", "k|3"), { freq: 10 }),
  amount: fc.constantFrom(1, 2),
  principal: fc.constantFrom(null, null, "ada", "grace"),
});

function take(fixture: Fixture, tenant: string, { path, key, amount, principal }: Step) {
  return fixture.request(path, {
    method: "POST",
    tenant,
    body: { item: "book", amount },
    ...(key !== null && { key }),
    ...(principal !== null && { principal }),
  });
}

const revealingHeaders = [
  "Location",
  "Retry-After",
  "Idempotent-Replayed",
  "Idempotency-Status",
  "Content-Length",
];

function seen(answer: FixtureAnswer) {
  return {
    status: answer.status,
    text: answer.text,
    lines: revealingHeaders.map((name) => answer.lines(name)),
  };
}

/** Ids are made anew in each run: what counts is which are the same. */
function withoutIds(text: string): string {
  const ids = new Map<string, number>();
  return text.replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gu, (id) => {
    if (!ids.has(id)) ids.set(id, ids.size);
    return `id-${ids.get(id)}`;
  });
}
