/** The handler over real stores: who may do what, and the results. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { message } from "../../../test/brokers/inbox-arrange.ts";
import {
  bareDoubt,
  begin,
  bytes,
  callInDoubt,
  complete,
  jsonAnswer,
  keyOf,
  ownerOf,
} from "../../../test/cli/arrange.ts";
import { decideSome, openWorld, token, type World } from "../../../test/console/arrange.ts";
import { buildConsolePage } from "../../../test/support/console-page.ts";
import { manualPorts } from "../../../test/support/manual-ports.ts";
import { until } from "../../../test/support/until.ts";
import { createInbox, createLatchkey } from "../../latchkey/src/index.ts";
import { memoryStore } from "../../latchkey/src/stores/memory.ts";
import { type ConsoleHandler, type ConsoleOptions, consoleHandler, createHistory } from "./index.ts";

const site = "http://console.test";
const bearer = { authorization: `Bearer ${token}`, "x-latchkey-operator": "ada" };
const own = { origin: site, "x-latchkey-console": "1" };

let world: World;
let handler: ConsoleHandler;
beforeAll(async () => {
  await buildConsolePage();
  world = await openWorld();
  handler = consoleHandler({ latchkey: world.latchkey, token });
});
afterAll(() => world.close());

type Options = ConsoleOptions<
  Parameters<typeof consoleHandler>[0] extends ConsoleOptions<infer Tx> ? Tx : never
>;

async function get(path: string, headers: Record<string, string> = bearer, on = handler) {
  const response = await on(new Request(`${site}${path}`, { headers }));
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, body: jsonOf(text) };
}

async function post(
  path: string,
  fields: unknown,
  headers: Record<string, string> = { ...bearer, ...own },
  on = handler,
) {
  const body = typeof fields === "string" ? fields : JSON.stringify(fields);
  const response = await on(new Request(`${site}/api/${path}`, { method: "POST", headers, body }));
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, body: jsonOf(text) };
}

// biome-ignore lint/suspicious/noExplicitAny: the answer's form is what is tested
function jsonOf(text: string): any {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

describe("construction", () => {
  const { latchkey } = { latchkey: createLatchkey({ store: memoryStore() }) };
  test.each([
    ["an unknown option", { latchkey, token, color: "red" }, /unknown option "color"/],
    ["no access", { latchkey }, /either token or authorize/],
    ["both", { latchkey, token, authorize: () => null }, /either token or authorize/],
    ["a short token", { latchkey, token: "secret" }, /at least 16 characters/],
    ["no latchkey", { token }, /what createLatchkey returned/],
    ["a path that ends in /", { latchkey, token, basePath: "/console/" }, /basePath/],
    ["a path that is HTML", { latchkey, token, basePath: '/"><script>' }, /basePath/],
    ["an origin with a path", { latchkey, token, origins: ["https://a.test/x"] }, /is not an origin/],
  ])("%s is a TypeError", (_what, options, expected) => {
    expect(() => consoleHandler(options as unknown as Options)).toThrow(expected);
  });
});

describe("the page", () => {
  test.each(["/", "/unknown", "/record/01a21257-4eea-7a9d-8e65-72aaaaaaaaaa", "/no-such-page"])(
    "is served at %s with its security headers, to everyone",
    async (path) => {
      const { status, headers, text } = await get(path, {});
      expect(status).toBe(200);
      expect(text).toContain('<div id="root">');
      const policy = headers.get("content-security-policy") ?? "";
      for (const part of [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "frame-ancestors 'none'",
      ]) {
        expect(policy).toContain(part);
      }
      expect(policy).not.toContain("unsafe");
      expect(text, "the policy must forbid both").not.toMatch(/<script(?![^>]* src=)|style=/u);
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("cache-control")).toBe("no-store");
    },
  );

  test("its files exist below any path, and no other file of the machine is served", async () => {
    const below = consoleHandler({ latchkey: world.latchkey, token, basePath: "/ops/console" });
    const { text } = await get("/ops/console/unknown", {}, below);
    const files = [...text.matchAll(/(?:src|href)="(\/[^"]+)"/gu)].map((match) => match[1] ?? "");
    expect(files.length).toBeGreaterThanOrEqual(3);
    for (const file of files) {
      expect(file).toMatch(/^\/ops\/console\//u);
      const { status, headers } = await get(file, {}, below);
      expect({ file, status, type: headers.get("content-type") }).toMatchObject({
        status: 200,
        type: expect.stringMatching(/javascript|css/u),
      });
    }
    for (const path of ["/..%2f..%2fpackage.json", "/assets/../../package.json", "/%2e%2e/package.json"]) {
      expect((await get(path, {})).text).not.toContain('"name"');
    }
    const taken = await get("/api/session", bearer, below);
    expect(taken.status, "a framework may remove its path").toBe(200);
  });
});

describe("access", () => {
  const reads = [
    "session",
    "overview",
    "depths",
    "records?state=unknown",
    "census?queue=dead",
    "inspect?name=x",
  ];
  test.each(reads)("GET %s returns nothing without a session", async (path) => {
    const { status, body } = await get(`/api/${path}`, {});
    expect(status).toBe(401);
    expect(Object.keys(body).sort()).toEqual(["detail", "signIn", "title"]);
  });

  test("wrong tokens and modified cookies are rejected", async () => {
    for (const authorization of [
      "Bearer ",
      `Bearer ${token}x`,
      `Bearer ${token.slice(1)}`,
      `Basic ${token}`,
    ]) {
      expect((await get("/api/session", { authorization })).status).toBe(401);
    }
    const signed = await post("session", { token, operator: "ada" }, own);
    const cookie = signed.headers.get("set-cookie")?.split(";")[0] ?? "";
    expect((await get("/api/session", { cookie })).body).toMatchObject({ operator: "ada", mayAct: true });
    const [name = "", value = ""] = cookie.split("=");
    const [, mark = ""] = value.split(".");
    const forged = Buffer.from(JSON.stringify({ operator: "eve", until: Date.now() * 2 })).toString(
      "base64url",
    );
    for (const other of [
      `${name}=${forged}.${mark}`,
      `${name}=${value}x`,
      `${name}=.`,
      `${name}=`,
      `x${cookie}`,
    ]) {
      expect((await get("/api/session", { cookie: other })).status).toBe(401);
    }
    const elsewhere = consoleHandler({ latchkey: world.latchkey, token: "the token of another console" });
    expect((await get("/api/session", { cookie }, elsewhere)).status).toBe(401);
  });

  test("signing in gives a cookie that scripts and other sites cannot use; signing out ends it", async () => {
    const signed = await post("session", { token, operator: " ada " }, own);
    const cookie = signed.headers.get("set-cookie") ?? "";
    expect(cookie).toMatch(/; Path=\/; .*HttpOnly; SameSite=Strict$/u);
    const out = await handler(
      new Request(`${site}/api/session`, {
        method: "DELETE",
        headers: { ...own, cookie: cookie.split(";")[0] ?? "" },
      }),
    );
    expect(out.headers.get("set-cookie")).toContain("Max-Age=0");
    const wrong = await post("session", { token: "guessed", operator: "eve" }, own);
    expect(wrong).toMatchObject({
      status: 403,
      body: { title: expect.stringContaining("The token is wrong") },
    });
    expect(wrong.headers.get("set-cookie")).toBeNull();
    expect(
      (await post("session", { token, operator: " " }, own)).status,
      "a name is stored with decisions",
    ).toBe(400);
    const secure = new Request("https://console.test/api/session", {
      method: "POST",
      headers: { "x-latchkey-console": "1", origin: "https://console.test" },
      body: JSON.stringify({ token, operator: "ada" }),
    });
    expect((await handler(secure)).headers.get("set-cookie")).toContain("Secure");
  });

  test("a session ends after twelve hours, for reads and for actions", async () => {
    const ports = manualPorts();
    const timed = consoleHandler({ latchkey: createLatchkey({ store: memoryStore(), ports }), token });
    const signedIn = await post("session", { token, operator: "ada" }, own, timed);
    const cookie = signedIn.headers.get("set-cookie")?.split(";")[0] ?? "";
    const hours = (count: number) => ports.clock.advance(count * 60 * 60 * 1_000);
    await hours(11);
    expect((await get("/api/session", { cookie }, timed)).status).toBe(200);
    await hours(1);
    expect(await get("/api/session", { cookie }, timed)).toMatchObject({
      status: 401,
      body: { title: "You are not signed in." },
    });
    expect((await post("retry", {}, { ...own, cookie }, timed)).status).toBe(401);
  });

  test("the host's own authentication decides, and can make a user read-only", async () => {
    const users: Record<string, { operator: string; readOnly?: boolean }> = {
      a: { operator: "ada" },
      g: { operator: "grace", readOnly: true },
    };
    const hosted = consoleHandler({
      latchkey: world.latchkey,
      authorize: (request) => users[request.headers.get("x-user") ?? ""] ?? null,
    });
    expect((await get("/api/session", { "x-user": "a" }, hosted)).body).toMatchObject({
      operator: "ada",
      mayAct: true,
      canSignOut: false,
    });
    expect((await get("/api/session", { "x-user": "g" }, hosted)).body).toMatchObject({ mayAct: false });
    expect((await get("/api/session", bearer, hosted)).body).toMatchObject({ signIn: false });
    expect((await post("session", { token, operator: "eve" }, own, hosted)).status).toBe(404);
    const refused = await post("settle", {}, { ...own, "x-user": "g" }, hosted);
    expect(refused).toMatchObject({
      status: 403,
      body: { title: expect.stringContaining("read-only for you") },
    });
  });
});

describe("another site's page", () => {
  const actions = ["settle", "decide", "jobs", "session"];
  const foreign: readonly [string, Record<string, string>][] = [
    ["another origin", { ...own, origin: "http://evil.test" }],
    ["an opaque origin", { ...own, origin: "null" }],
    ["no header", { origin: site }],
    ["a cross-site fetch", { ...own, "sec-fetch-site": "cross-site" }],
    ["a sibling's fetch", { ...own, "sec-fetch-site": "same-site" }],
    ["no origin and no token", { "x-latchkey-console": "1" }],
  ];
  test.each(foreign)("cannot act: %s", async (_what, headers) => {
    const signed = await post("session", { token, operator: "ada" }, own);
    const cookie = signed.headers.get("set-cookie")?.split(";")[0] ?? "";
    for (const action of actions) {
      const answer = await post(action, { token, operator: "ada" }, { ...headers, cookie });
      expect(answer).toMatchObject({ status: 403, body: { title: expect.stringContaining("own page") } });
    }
  });

  test("a configured origin may act, behind a proxy; a program with the token needs none", async () => {
    const proxied = consoleHandler({ latchkey: world.latchkey, token, origins: ["https://admin.test"] });
    const headers = {
      "x-latchkey-console": "1",
      origin: "https://admin.test",
      "sec-fetch-site": "same-origin",
    };
    expect((await post("session", { token, operator: "ada" }, headers, proxied)).status).toBe(200);
    expect(
      (await post("settle", {}, { ...bearer, "x-latchkey-console": "1" })).status,
      "accepted, but with a wrong body",
    ).toBe(400);
  });
});

describe("reading", () => {
  test("counts, pages and causes match the store", async () => {
    const tenant = "reading";
    for (const n of [1, 2, 3]) await callInDoubt(world.place, keyOf(`r-${n}`, { tenant }));
    await bareDoubt(world.place, keyOf("r-4", { tenant }));
    const { body } = await get("/api/overview");
    expect(body.overview).toMatchObject({ store: "postgres", unknown: { count: body.unknown.count } });
    expect(body).toMatchObject({ services: null, history: null });
    const first = (await get(`/api/records?state=unknown&tenant=${tenant}&limit=3`)).body;
    expect(first.items.map(({ key }: { key: string }) => key)).toEqual(["r-1", "r-2", "r-3"]);
    const second = (await get(`/api/records?state=unknown&tenant=${tenant}&limit=3&from=${first.next}`)).body;
    expect(second).toMatchObject({ items: [{ key: "r-4" }], next: null });
    const census = (await get(`/api/census?queue=unknown&tenant=${tenant}&errorCode=call-in-doubt`)).body;
    expect(census).toMatchObject({ count: 3, causes: [{ count: 3, errorCode: "call-in-doubt" }] });
  });

  test.each([
    "records?state=lost",
    "records?state=unknown&limit=0",
    "records?state=unknown&limit=9999",
    "records?state=unknown&from=nowhere",
    "records?state=unknown&notAfter=yesterday",
    "census?queue=all",
    "dead?kind=record",
  ])("%s is refused with an explanation", async (path) => {
    const { status, body } = await get(`/api/${path}`);
    expect({ status, body }).toMatchObject({
      status: 400,
      body: { title: expect.any(String), detail: expect.any(String) },
    });
  });

  test("an unknown record is not found, and an unknown address does not exist", async () => {
    expect((await get("/api/inspect?name=order-1")).body).toEqual({ kind: "not_found" });
    expect((await get("/api/inspect?name=")).body).toEqual({ kind: "not_found" });
    expect((await get("/api/nothing")).status).toBe(404);
    expect((await get("/api/jobs/00000000-0000-0000-0000-000000000000")).status).toBe(404);
  });

  test("values are masked unless the host configures otherwise; no value appears anywhere in the answer", async () => {
    const canary = "canary-4242424242424242";
    const key = keyOf("masked");
    const record = await begin(
      world.place,
      key,
      bytes({ card: canary, list: [1, { note: canary }], none: null }),
    );
    await complete(world.place, ownerOf(key, record), jsonAnswer(201, { card: canary, amount: 77_001 }));
    const path = `/api/inspect?name=${record.id}`;
    const { text, body } = await get(path);
    expect(text).not.toContain(canary);
    expect(text).not.toContain("77001");
    expect(body.report.answer.value).toMatchObject({
      status: 201,
      body: { card: "••••••••", amount: "••••••••" },
    });
    expect(body.report.answer.value.headers).toEqual([["Content-Type", "application/json"]]);
    const open = consoleHandler({ latchkey: world.latchkey, token, redact: false });
    expect((await get(path, bearer, open)).body.report.answer.value.body).toEqual({
      card: canary,
      amount: 77_001,
    });
    const chosen = consoleHandler({
      latchkey: world.latchkey,
      token,
      redact: (value, { part, operation, tenant }) =>
        part === "answer" ? `${operation} of ${tenant}` : value,
    });
    expect((await get(path, bearer, chosen)).body.report.answer.value.body).toBe(
      "payments.charge of account-1",
    );
    const broken = consoleHandler({
      latchkey: world.latchkey,
      token,
      redact: () => {
        throw new Error(canary);
      },
    });
    const failed = await get(path, bearer, broken);
    expect(failed.status).toBe(500);
    expect(failed.text).not.toContain(canary);
  });
});

describe("the summary of a request", () => {
  const requested = async (redact?: (value: unknown) => unknown) => {
    const latchkey = createLatchkey({
      store: world.place.store,
      summary: { fields: ["card"] },
      ...(redact !== undefined && { redact }),
    });
    const operation = latchkey.operation("payments.summed", { execution: "lease" });
    const key = keyOf(`summed-${crypto.randomUUID()}`, { scope: "payments.summed" });
    await latchkey.execute(
      operation,
      {
        key,
        fingerprint: { version: 1, digest: new Uint8Array(32) },
        principal: null,
        summarize: () => ({ method: "POST", path: "/payments", fields: { card: "4242" } }),
      },
      async () => ({ status: 201, headers: [], body: bytes({ card: "4242" }), omitted: null }),
    );
    const { record } = await world.place.store.read(key);
    return { latchkey, path: `/api/inspect?name=${record?.id}` };
  };

  test("shows method and path, and masks the fields, unless configured otherwise", async () => {
    const { latchkey, path } = await requested();
    const shown = await get(path, bearer, consoleHandler({ latchkey, token }));
    expect(shown.body.report.summary).toEqual({
      value: { method: "POST", path: "/payments", fields: { card: "••••••••" } },
    });
    const open = await get(path, bearer, consoleHandler({ latchkey, token, redact: false }));
    expect(open.body.report.summary.value.fields).toEqual({ card: "4242" });
  });

  test("one function of the latchkey decides what is stored and what is shown", async () => {
    const redact = (value: unknown) => JSON.parse(JSON.stringify(value).replaceAll("4242", "…42"));
    const { latchkey, path } = await requested(redact);
    const shown = await get(path, bearer, consoleHandler({ latchkey, token }));
    expect(shown.body.report.summary.value.fields).toEqual({ card: "…42" });
    expect(shown.body.report.answer.value.body).toEqual({ card: "…42" });
    const open = await get(path, bearer, consoleHandler({ latchkey, token, redact: false }));
    expect(open.body.report.summary.value.fields, "it was stored that way").toEqual({ card: "…42" });
    expect(open.body.report.answer.value.body, "the answer must be stored completely").toEqual({
      card: "4242",
    });
  });
});

describe("acting", () => {
  const settleFields = async (id: string) => {
    const { report } = (await get(`/api/inspect?name=${id}`)).body;
    return { recordId: id, attempt: report.attempt, reason: "ticket 7" };
  };

  test("settles with name and reason; a second person sees who was faster", async () => {
    const { id, downstream } = await callInDoubt(world.place, keyOf("act-1"));
    const fields = {
      ...(await settleFields(id)),
      outcome: "not-executed",
      proof: "operator",
      downstreamKey: downstream,
    };
    const done = await post("settle", fields);
    expect(done).toMatchObject({
      status: 200,
      body: { kind: "settled", audit: { actor: "ada", reason: "ticket 7" } },
    });
    const late = await post(
      "settle",
      { ...fields, reason: "me too" },
      { ...bearer, ...own, "x-latchkey-operator": "bob" },
    );
    expect(late).toMatchObject({ status: 409, body: { title: "Not settled. ada was faster." } });
  });

  test.each([
    ["no reason", { reason: " " }],
    ["no attempt", { attempt: "1" }],
    ["an unknown outcome kind", { outcome: "maybe" }],
    ["no proof", { proof: "hope" }],
    ["an answer that is invalid", { outcome: "completed", answer: 7 }],
    ["a status that is invalid", { outcome: "completed", answer: { status: 99 } }],
  ])("refuses a settlement with %s, and changes nothing", async (_what, change) => {
    const id = await bareDoubt(world.place, keyOf(`wrong-${_what}`));
    const fields = {
      ...(await settleFields(id)),
      outcome: "not-executed",
      proof: "operator",
      downstreamKey: null,
    };
    const refused = await post("settle", { ...fields, ...change });
    expect([400, 409]).toContain(refused.status);
    expect(refused.body).toMatchObject({ title: expect.any(String), detail: expect.any(String) });
    expect((await get(`/api/inspect?name=${id}`)).body.report).toMatchObject({ state: "unknown", audit: [] });
  });

  test.each([
    ["not JSON", "{"],
    ["not an object", "[]"],
    ["too large", JSON.stringify({ reason: "x".repeat(300_000) })],
  ])("refuses a body that is %s", async (_what, body) => {
    expect(await post("settle", body)).toMatchObject({ status: 400, body: { title: expect.any(String) } });
  });

  test("redrives and discards dead effects, each once", async () => {
    for (const n of [1, 2]) await world.killEffect(`dead-${n}`, "attempts-spent", "dying");
    const dead = (await get("/api/dead?kind=effect&tenant=dying")).body.items;
    const redrive = { death: dead[0].death, decision: "redrive", doubt: "kept", reason: "mended" };
    expect(await post("decide", redrive)).toMatchObject({
      status: 200,
      body: { kind: "decided", what: "effect" },
    });
    expect(await post("decide", redrive)).toMatchObject({
      status: 409,
      body: { title: expect.stringContaining("no longer dead") },
    });
    expect((await post("decide", { ...redrive, death: dead[1].death, decision: "discard" })).status).toBe(
      200,
    );
    expect((await post("decide", { ...redrive, death: "order-1" })).status).toBe(400);
    expect((await get("/api/dead?kind=effect&tenant=dying")).body.items).toEqual([]);
  });

  test("a dead message is published again, and the broker's error is shown if that fails", async () => {
    const latchkey = createLatchkey({ store: memoryStore() });
    const inbox = createInbox(
      latchkey,
      latchkey.operation("ship"),
      { tenant: "shop", failuresMax: 1 },
      async () => {
        throw new Error("it does not work yet");
      },
    );
    await inbox.consume(message(1));
    const world = { isUp: false, published: 0 };
    const here = consoleHandler({
      latchkey,
      token,
      republish: () => {
        if (!world.isUp) throw new TypeError("the broker cannot be reached");
        world.published += 1;
      },
    });
    const [letter] = (await get("/api/dead?kind=message", bearer, here)).body.items;
    const redrive = { death: letter.id, decision: "redrive", doubt: "kept", reason: "mended" };
    const failed = await post("decide", redrive, { ...bearer, ...own }, here);
    expect(failed).toMatchObject({
      status: 502,
      body: { detail: expect.stringContaining("the broker cannot be reached") },
    });
    const shown = (await get(`/api/inspect?name=${letter.id}`, bearer, here)).body;
    expect(shown).toMatchObject({ kind: "message", payload: { value: { body: { order: "••••••••" } } } });
    world.isUp = true;
    const [held] = (await get("/api/dead?kind=message", bearer, here)).body.items;
    expect((await post("decide", { ...redrive, death: held.id }, { ...bearer, ...own }, here)).status).toBe(
      200,
    );
    expect(world.published).toBe(1);
  });

  test("a completed record is forgotten once, after confirmation, with name and reason", async () => {
    const key = keyOf("act-forget");
    const record = await begin(world.place, key);
    await complete(world.place, ownerOf(key, record), jsonAnswer(201, {}));
    const fields = await settleFields(record.id);
    expect(await post("forget", fields)).toMatchObject({
      status: 409,
      body: { title: "Its operation has happened.", detail: expect.stringContaining("a second time") },
    });
    for (const wrong of [{ mayRunAgain: "yes" }, { attempt: "1" }, { reason: " " }]) {
      expect(await post("forget", { ...fields, mayRunAgain: true, ...wrong })).toMatchObject({ status: 400 });
    }
    const audit = async () => (await get(`/api/inspect?name=${record.id}`)).body.report.audit;
    expect(await audit()).toEqual([]);
    expect(await post("forget", { ...fields, mayRunAgain: true })).toMatchObject({ status: 200 });
    expect(await audit()).toMatchObject([{ event: "forget", actor: "ada", reason: "ticket 7" }]);
    expect(await post("forget", { ...fields, mayRunAgain: true })).toMatchObject({
      status: 409,
      body: { title: "Its time is already over." },
    });
  });

  test("an unknown record is looked up again; a running one is not retried", async () => {
    const { id } = await callInDoubt(world.place, keyOf("act-retry"));
    expect(await post("retry", await settleFields(id))).toMatchObject({
      status: 200,
      body: { kind: "done" },
    });
    expect((await get(`/api/inspect?name=${id}`)).body.report).toMatchObject({
      state: "unknown",
      audit: [{ event: "retry", actor: "ada" }],
      reconcileAfter: expect.any(String),
    });
    const running = await begin(world.place, keyOf("act-retry-running"));
    expect(await post("retry", await settleFields(running.id))).toMatchObject({
      status: 409,
      body: { title: "It is under way." },
    });
  });

  test("read-only refuses every action with an explanation", async () => {
    const shut = consoleHandler({ latchkey: world.latchkey, token, readOnly: true });
    for (const action of [
      "settle",
      "retry",
      "forget",
      "decide",
      "jobs",
      "jobs/00000000-0000-0000-0000-000000000000/run",
    ]) {
      expect(await post(action, {}, { ...bearer, ...own }, shut)).toMatchObject({
        status: 403,
        body: { title: expect.stringContaining("read-only") },
      });
    }
    expect((await get("/api/session", bearer, shut)).body.mayAct).toBe(false);
  });
});

describe("acting on all matching entries", () => {
  const over = (id: string) =>
    until(async () => {
      const { body } = await get(`/api/jobs/${id}`);
      return body.state === "finished" ? body : null;
    });

  test("checked entries are settled, later ones are not, and those settled meanwhile are refused", async () => {
    const tenant = "bulk";
    for (const n of [1, 2, 3]) await callInDoubt(world.place, keyOf(`b-${n}`, { tenant }));
    await bareDoubt(world.place, keyOf("b-other", { tenant }));
    const what = { queue: "unknown", tenant, errorCode: "call-in-doubt", reason: "closed, ticket 9" };
    const action = { kind: "settle", outcome: "not-executed", proof: "closed-downstream" };
    const checked = (await post("jobs", { ...what, ...action })).body;
    expect(checked).toMatchObject({ state: "checked", total: 3, done: 0, more: false });
    await callInDoubt(world.place, keyOf("b-later", { tenant }));
    const { items } = (await get(`/api/records?state=unknown&tenant=${tenant}`)).body;
    const second = items[1];
    await post("settle", {
      recordId: second.id,
      attempt: 1,
      reason: "by hand",
      outcome: "failed",
      answer: { status: 502 },
    });
    expect(await post(`jobs/${checked.id}/run`, { count: 2 })).toMatchObject({ status: 409 });
    const other = { ...bearer, ...own, "x-latchkey-operator": "eve" };
    expect(
      (await post(`jobs/${checked.id}/run`, { count: 3 }, other)).status,
      "belongs to another person",
    ).toBe(404);
    await post(`jobs/${checked.id}/run`, { count: 3 });
    await post(`jobs/${checked.id}/run`, { count: 3 });
    const done = await over(checked.id);
    expect(done).toMatchObject({
      total: 3,
      done: 2,
      refused: 1,
      refusals: [{ name: "b-2", title: "Not settled. ada was faster." }],
    });
    const left = (await get(`/api/records?state=unknown&tenant=${tenant}`)).body.items;
    expect(left.map(({ key }: { key: string }) => key)).toEqual(["b-other", "b-later"]);
    const settled = (await get(`/api/records?state=retryable&tenant=${tenant}`)).body.items;
    expect(settled.map(({ key }: { key: string }) => key)).toEqual(["b-1", "b-3"]);
    expect((await get("/api/depths")).body.jobs[0]).toMatchObject({ id: checked.id, operator: "ada" });
  });

  test("records without a call in doubt cannot be closed on the other side", async () => {
    const tenant = "bulk-bare";
    await bareDoubt(world.place, keyOf("bare", { tenant }));
    const action = { kind: "settle", outcome: "not-executed", proof: "closed-downstream" };
    const { id } = (await post("jobs", { queue: "unknown", tenant, reason: "closed", ...action })).body;
    await post(`jobs/${id}/run`, { count: 1 });
    expect(await over(id)).toMatchObject({
      done: 0,
      refused: 1,
      refusals: [{ title: expect.stringContaining("no call in doubt") }],
    });
  });

  test("retryable records are retried, and unknown ones looked up again; those that changed meanwhile are refused", async () => {
    const tenant = "bulk-retry";
    for (const n of [1, 2]) await callInDoubt(world.place, keyOf(`r-${n}`, { tenant }));
    const what = { tenant, reason: "their API is back", kind: "retry" };
    const again = (await post("jobs", { ...what, queue: "unknown" })).body;
    expect(again).toMatchObject({ state: "checked", total: 2 });
    const rows = async () =>
      (
        await world.place.pool.query(
          "select state, reconcile_after <= now() as due from latchkey.records where tenant = $1 order by key",
          [tenant],
        )
      ).rows;
    expect(await rows()).not.toContainEqual({ state: "unknown", due: true });
    await post(`jobs/${again.id}/run`, { count: 2 });
    expect(await over(again.id)).toMatchObject({ done: 2, refused: 0 });
    expect(await rows()).toEqual([
      { state: "unknown", due: true },
      { state: "unknown", due: true },
    ]);
    const settle = { kind: "settle", outcome: "not-executed", proof: "operator" };
    const settled = (await post("jobs", { queue: "unknown", tenant, reason: "lost", ...settle })).body;
    await post(`jobs/${settled.id}/run`, { count: 2 });
    await over(settled.id);
    const retryable = (await get(`/api/records?state=retryable&tenant=${tenant}`)).body.items;
    expect(retryable).toHaveLength(2);
    const { id, total } = (await post("jobs", { ...what, queue: "retryable" })).body;
    expect(total).toBe(2);
    // As after several failures. A settled record is due at once.
    const later = "update latchkey.records set reconcile_after = now() + interval '1 hour' where tenant = $1";
    await world.place.pool.query(later, [tenant]);
    const [first] = retryable;
    await world.place.pool.query("delete from latchkey.records where id = $1", [first.id]);
    await post(`jobs/${id}/run`, { count: 2 });
    expect(await over(id)).toMatchObject({
      done: 1,
      refused: 1,
      refusals: [{ title: expect.stringContaining("no longer exists") }],
    });
  });

  test("dead effects are redriven as a group", async () => {
    for (const n of [1, 2, 3]) await world.killEffect(`g-${n}`, "attempts-spent", "group");
    const what = { queue: "effect", tenant: "group", effect: "receipt.send", reason: "mended" };
    const { id, total } = (await post("jobs", { ...what, kind: "redrive", doubt: "kept" })).body;
    await post(`jobs/${id}/run`, { count: total });
    expect(await over(id)).toMatchObject({ total: 3, done: 3, refused: 0 });
  });

  test.each([
    ["records are not redriven", { queue: "unknown", kind: "redrive", doubt: "kept" }],
    ["effects are not retried", { queue: "effect", kind: "retry" }],
    [
      "retryable records are not settled",
      { queue: "retryable", kind: "settle", outcome: "failed", status: 502 },
    ],
    ["effects are not settled", { queue: "effect", kind: "settle", outcome: "failed", status: 502 }],
    [
      "a failure needs a failure's status",
      { queue: "unknown", kind: "settle", outcome: "failed", status: 200 },
    ],
    ["each record has its own result", { queue: "unknown", kind: "settle", outcome: "call" }],
  ])("%s", async (_what, fields) => {
    expect((await post("jobs", { ...fields, reason: "x" })).status).toBe(400);
  });
});

test("an unreachable store is reported, without the database's error message", async () => {
  const gone = await openWorld();
  const here = consoleHandler({ latchkey: gone.latchkey, token });
  await gone.close();
  const { status, body } = await get("/api/overview", bearer, here);
  expect(status).toBeGreaterThanOrEqual(500);
  expect(body).toMatchObject({ title: expect.any(String), detail: expect.any(String) });
});

test("history: requests per minute by decision, durations by operation, duplicates by tenant; limited in size", async () => {
  const clock = { now: Date.parse("2026-11-25T02:00:30Z") };
  const history = createHistory({ clock: { wallMs: () => clock.now } });
  const about = { operation: "pay", tenant: "acme", keyHash: "0" };
  const executed = (durationMs: number) =>
    history.onEvent({
      ...about,
      type: "executed",
      recordId: "r",
      execution: "lease",
      attempt: 1,
      durationMs,
    });
  for (const ms of [10, 20, 30]) executed(ms);
  history.onEvent({ ...about, type: "replayed", recordId: "r" });
  history.onEvent({ type: "worker_started" });
  clock.now += 2 * 60_000;
  history.onEvent({ ...about, type: "in_progress" });
  const view = history.view(new Map([["pay", 300]]));
  expect(view.decisions.executed).toEqual([3, 0, 0]);
  expect(view.decisions.replayed).toEqual([1, 0, 0]);
  expect(view.decisions.in_progress).toEqual([0, 0, 1]);
  expect(view.operations).toEqual([
    { operation: "pay", execution: "lease", perMinute: 1.5, p50Ms: 20, p99Ms: 30, leaseMs: 300 },
  ]);
  expect(view.tenants).toEqual([{ tenant: "acme", requests: 5, duplicates: 2 }]);
  for (let n = 0; n < 500; n++)
    history.onEvent({ ...about, tenant: `t-${n}`, type: "replayed", recordId: "r" });
  clock.now += 24 * 60 * 60_000;
  executed(1);
  expect(history.view().minutes).toHaveLength(360);
  expect(history.view().tenants[0], "tenants without their own entry must be counted together").toMatchObject(
    {
      tenant: "(others)",
      duplicates: 401,
    },
  );
});

describe("the audit log", () => {
  test("has the decisions of all tenants, or of one", async () => {
    await decideSome(world);
    const { status, body } = await get("/api/audit?limit=200");
    expect(status).toBe(200);
    const keys = body.items.map(({ key }: { readonly key: string }) => key);
    expect(keys).toEqual(expect.arrayContaining(["order-87002", "order-87110"]));
    const own = await get("/api/audit?tenant=globex");
    expect(own.body).toMatchObject({ items: [{ tenant: "globex", event: "discard", actor: "grace" }] });
    expect(await get("/api/audit?from=yesterday")).toMatchObject({ status: 400 });
  });

  test("is refused with an explanation by a store that keeps rows by key only, and its page is not offered", async () => {
    const { listAudit, ...store } = memoryStore();
    const bare = consoleHandler({ latchkey: createLatchkey({ store }), token });
    expect((await get("/api/session", bearer, bare)).body.abilities.auditLog).toBe(false);
    expect(await get("/api/audit", bearer, bare)).toMatchObject({
      status: 404,
      body: { title: "This store has no audit log." },
    });
  });
});
