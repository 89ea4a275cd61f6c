/** The fixture server's contract, on every front end and every store. */
import { randomUUID } from "node:crypto";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  type Fixture,
  type FixtureAnswer,
  spawnFixture,
  startFixture,
  temporaryFolder,
} from "../support/fixture.ts";
import { type HandlerGate, openHandlerGate } from "../support/handler-gate.ts";
import { releaseAll } from "../support/resources.ts";
import { type FreshDatabase, freshDatabase, sharedPostgres } from "../support/shared-postgres.ts";
import { isThorough, sample } from "../support/thorough.ts";
import { until } from "../support/until.ts";
import { everyFrontEnd } from "./places.ts";

const book = { body: { item: "book", amount: 2 } };

afterAll(releaseAll);

describe.each(everyFrontEnd)("$http on $store", ({ http, store }) => {
  let database: FreshDatabase | undefined;
  let fixture: Fixture;
  let gate: HandlerGate;
  let start: () => Promise<Fixture>;

  beforeAll(async () => {
    const folder = temporaryFolder();
    if (store === "postgres") database = await freshDatabase();
    gate = await openHandlerGate(folder);
    start = () =>
      startFixture({
        http,
        store: database?.url ?? store,
        args: ["--data", `${folder}/data`],
        env: { LATCHKEY_FIXTURE_GATE: gate.path },
      });
    fixture = await start();
  });
  afterAll(async () => {
    await fixture?.worker.stop();
    await database?.drop();
  });

  test("says where it listens, in one line", async () => {
    expect(fixture.worker.lines).toEqual([{ ready: true, port: fixture.port, pid: fixture.worker.pid }]);
    expect((await fixture.request("/health", { tenant: null })).status).toBe(200);
  });

  test("asks who calls before anything else", async () => {
    const answer = await fixture.post("/orders", "k", { ...book, tenant: null });
    expect(answer).toMatchObject({ status: 401 });
    expect(answer.lines("Content-Type")[0]).toMatch(/^application\/problem\+json/u);
    expect((await fixture.request("/ledger", { tenant: null })).status).toBe(401);
  });

  test("makes an order once, and answers the same again", async () => {
    const tenant = "orders";
    const first = await fixture.post("/orders", "k", { ...book, tenant });
    const second = await fixture.post("/orders", '"k"', { ...book, tenant });
    expect(first).toMatchObject({ status: 201, replayed: false });
    const order = first.json() as { id: string };
    expect(order).toEqual({ id: order.id, item: "book", amount: 2 });
    expect(first.lines("Location")).toEqual([`/orders/${order.id}`]);
    expectReplay(second, first);
    expect(await fixture.starts("/orders", tenant)).toBe(1);
    expect(await fixture.ledger(tenant)).toMatchObject([{ ...order, key: "k", attempt: 1 }]);
    expect((await fixture.ledger(tenant))[0]?.recordId).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7/u);
    const misuse = await fixture.post("/orders", "k", { body: { item: "book", amount: 3 }, tenant });
    expect(misuse).toMatchObject({ status: 422 });
    expect(misuse.json()).toMatchObject({ code: "key-misuse" });
    expect(await fixture.starts("/orders", tenant)).toBe(1);
    expect((await fixture.request("/orders", { ...book, tenant, method: "POST" })).json()).toMatchObject({
      code: "missing-key",
    });
  });

  test.each([
    { ending: "throw", status: 500, rows: 0, runsAgain: true },
    { ending: "500", status: 500, rows: 0, runsAgain: true },
    { ending: "400", status: 400, rows: 1, runsAgain: false },
    { ending: "429", status: 429, rows: 0, runsAgain: true },
    { ending: "release", status: 400, rows: 0, runsAgain: true },
  ])("then=$ending: $status with $rows rows", async ({ ending, status, rows, runsAgain }) => {
    const tenant = `then-${ending}`;
    for (const again of [false, true]) {
      const answer = await fixture.post(`/orders?then=${ending}`, "k", { ...book, tenant });
      expect(answer).toMatchObject({ status, replayed: again && !runsAgain });
      expect(await fixture.ledger(tenant)).toHaveLength(rows);
    }
    expect(await fixture.starts("/orders", tenant)).toBe(runsAgain ? 2 : 1);
  });

  test("refuses an order it cannot read, and the mended one runs with the same key", async () => {
    const tenant = "mended";
    const refused = await fixture.post("/orders", "k", { body: { item: 7 }, tenant });
    expect(refused.status).toBe(400);
    expect(await fixture.post("/orders", "k", { ...book, tenant })).toMatchObject({ status: 201 });
  });

  test.each(["/slow", "/slow-tx"])("%s waits at the gate", async (path) => {
    const tenant = `gate${path}`;
    const running = fixture.post(`${path}?ms=1`, "k", { tenant });
    const arrival = await gate.arrival();
    expect(arrival).toMatchObject({ route: path, tenant, key: "k", attempt: 1, pid: fixture.worker.pid });
    const duplicate = await fixture.post(`${path}?ms=1`, "k", { tenant });
    expect(duplicate).toMatchObject({ status: 409 });
    expect(duplicate.json()).toMatchObject({ code: "in-progress" });
    arrival.release();
    const first = await running;
    expect(first).toMatchObject({ status: path === "/slow" ? 200 : 201, replayed: false });
    expectReplay(await fixture.post(`${path}?ms=1`, "k", { tenant }), first);
    expect(await fixture.starts(path, tenant)).toBe(1);
    expect(await fixture.ledger(tenant)).toHaveLength(path === "/slow" ? 0 : 1);
  });

  test.each([200, 204, 302, 404])("/status/%i is stored", async (code) => {
    const tenant = "status";
    const first = await fixture.post(`/status/${code}`, `k-${code}`, { tenant });
    expect(first).toMatchObject({ status: code, replayed: false });
    if (code !== 204) expect(first.json()).toEqual({ code });
    expectReplay(await fixture.post(`/status/${code}`, `k-${code}`, { tenant }), first);
    expect(await fixture.starts(`/status/${code}`, tenant)).toBe(1);
  });

  test("/status/500 leaves the outcome unknown, /status/429 nothing", async () => {
    const tenant = "status-again";
    expect(await fixture.post("/status/500", "k", { tenant })).toMatchObject({ status: 500 });
    expect((await fixture.post("/status/500", "k", { tenant })).json()).toMatchObject({
      status: 409,
      code: "outcome-unknown",
    });
    expect(await fixture.starts("/status/500", tenant)).toBe(1);
    for (const starts of [1, 2]) {
      expect(await fixture.post("/status/429", "k2", { tenant })).toMatchObject({ status: 429 });
      expect(await fixture.starts("/status/429", tenant)).toBe(starts);
    }
    expect(await fixture.starts("/status/{code}", tenant)).toBe(3);
  });

  test.each([
    { kind: "empty", bytes: Buffer.alloc(0) },
    { kind: "zero", bytes: Buffer.from("0") },
    { kind: "null", bytes: Buffer.from("null") },
    { kind: "no-content", bytes: Buffer.alloc(0), status: 204 },
    { kind: "buffer", bytes: Buffer.from(Array.from({ length: 256 }, (_, index) => index)) },
    { kind: "gzip", unpack: gunzipSync, bytes: Buffer.from(JSON.stringify({ packed: "x".repeat(1_000) })) },
    { kind: "stream", bytes: Buffer.from("chunk 0\nchunk 1\nchunk 2\nchunk 3\nchunk 4\n") },
    { kind: "end-text", bytes: Buffer.from("ended, not sent: é\n") },
    { kind: "cookies", bytes: Buffer.from('{"cookies":2}') },
    { kind: "large?bytes=100000", bytes: Buffer.alloc(100_000, "0123456789abcdef") },
  ])("/bodies/$kind is replayed byte for byte", async ({ kind, bytes, status = 200, unpack }) => {
    const first = await fixture.post(`/bodies/${kind}`, `k-${kind}`, { tenant: "bodies" });
    expect(first).toMatchObject({ status, replayed: false });
    expect((unpack?.(first.bytes) ?? first.bytes).equals(bytes)).toBe(true);
    const again = await fixture.post(`/bodies/${kind}`, `k-${kind}`, { tenant: "bodies" });
    expectReplay(again, first);
    for (const name of ["Content-Encoding", "Content-Type", "ETag", "Link", "Location"]) {
      expect(again.lines(name).join(", ")).toEqual(first.lines(name).join(", "));
    }
  });

  test("cookies belong to the first caller, links to everybody", async () => {
    const first = await fixture.post("/bodies/cookies", "k", { tenant: "cookies" });
    const again = await fixture.post("/bodies/cookies", "k", { tenant: "cookies" });
    expect(first.lines("Set-Cookie")).toHaveLength(2);
    expect(again.lines("Set-Cookie")).toEqual([]);
    expect(again.lines("ETag")).toEqual(['"v1"']);
    expect(again.lines("Link").join(", ")).toBe('</orders>; rel="collection", </ledger>; rel="related"');
  });

  test("an answer too large to keep leaves a tombstone", async () => {
    const path = "/bodies/large?bytes=2000000";
    const first = await fixture.post(path, "k", { tenant: "large" });
    expect(first.bytes).toHaveLength(2_000_000);
    const again = await fixture.post(path, "k", { tenant: "large" });
    expect(again).toMatchObject({ status: 200, text: "", replayed: true });
    expect(again.lines("Idempotency-Status")).toEqual(["answer-not-stored"]);
    expect(await fixture.starts("/bodies/large", "large")).toBe(1);
  });

  test("/optional needs no key, and keeps one that is sent", async () => {
    const tenant = "optional";
    const without = { method: "POST", tenant };
    expect((await fixture.request("/optional", without)).json()).toEqual({ key: null });
    expect((await fixture.request("/optional", without)).replayed).toBe(false);
    const first = await fixture.post("/optional", "k", { tenant });
    expectReplay(await fixture.post("/optional", "k", { tenant }), first);
    expect(await fixture.starts("/optional", tenant)).toBe(3);
  });

  test("PUT, GET and DELETE of an order are not protected", async () => {
    const tenant = "plain";
    const put = { method: "PUT", tenant, ...book };
    expect((await fixture.request("/orders/7", put)).json()).toEqual({ id: "7", item: "book", amount: 2 });
    expect((await fixture.request("/orders/7", put)).status).toBe(200);
    expect((await fixture.request("/orders/7", { tenant })).json()).toEqual({
      id: "7",
      item: "book",
      amount: 2,
    });
    expect(await fixture.ledger(tenant)).toHaveLength(1);
    expect((await fixture.request("/orders/7", { method: "DELETE", tenant })).status).toBe(204);
    expect((await fixture.request("/orders/7", { tenant })).status).toBe(404);
    expect(await fixture.ledger(tenant)).toEqual([]);
    expect(await fixture.starts("/orders/{id}", tenant)).toBe(5);
    expect(await fixture.starts("/orders", tenant)).toBe(0);
  });

  test.each(["/charges", "/charges-lookup", "/notify"])("%s needs what is not there", async (path) => {
    const answer = await fixture.post(path, "k", { body: { amount: 1 } });
    expect(answer.status).toBe(501);
    expect(answer.json()).toMatchObject({ status: 501, title: "Not Implemented" });
  });

  test("answers 404 for what it does not serve, 400 for a body that is not JSON", async () => {
    expect((await fixture.post("/nowhere", "k")).status).toBe(404);
    expect((await fixture.post("/bodies/nothing", "k")).status).toBe(404);
    expect((await fixture.request("/counter")).status).toBe(400);
    const headers = { "Content-Type": "application/json", "Transfer-Encoding": "chunked" };
    const broken = await fixture.request("/orders", { method: "POST", key: "broken", raw: "{", headers });
    expect(broken.status).toBe(400);
  });

  test("forgets everything on reset", async () => {
    const tenant = "reset";
    const first = await fixture.post("/orders", "k", { ...book, tenant });
    expect((await fixture.request("/reset", { method: "POST", tenant: null })).status).toBe(204);
    expect(await fixture.ledger(tenant)).toEqual([]);
    expect(await fixture.starts("/orders", tenant)).toBe(0);
    const second = await fixture.post("/orders", "k", { ...book, tenant });
    expect(second).toMatchObject({ status: 201, replayed: false });
    expect(second.text).not.toBe(first.text);
  });

  test("keeps answers, rows and counts over a crash, where the store does", async () => {
    const tenant = "crash";
    const first = await fixture.post("/orders", "k", { ...book, tenant });
    await fixture.worker.kill("SIGKILL");
    fixture = await start();
    expect(await fixture.starts("/orders", tenant)).toBe(1);
    const second = await fixture.post("/orders", "k", { ...book, tenant });
    if (store === "memory") expect(second).toMatchObject({ status: 201, replayed: false });
    else expectReplay(second, first);
    expect(await fixture.ledger(tenant)).toHaveLength(1);
  });

  test("answers what is in flight after SIGTERM, then exits 0", async () => {
    const running = fixture.post("/slow-tx", "k", { tenant: "drain" });
    const arrival = await gate.arrival();
    process.kill(fixture.worker.pid, "SIGTERM");
    await until(async () => (await fixture.request("/nowhere").catch(codeOf)) === "ECONNREFUSED", {
      what: "new connections are refused",
    });
    arrival.release();
    expect(await running).toMatchObject({ status: 201 });
    expect(await fixture.worker.exited).toEqual({ code: 0, signal: null });
    expect(fixture.worker.lines).toHaveLength(1);
  });
});

describe("refuses at the start, with exit code 2 and a message,", () => {
  const memory = ["--http", "express", "--store", "memory"];
  const refusals = [
    { args: ["--store", "memory"], says: "--http must be" },
    { args: ["--http", "express"], says: "--store must be" },
    { args: ["--http", "restify", "--store", "memory"], says: "--http must be" },
    { args: ["--http", "express", "--store", "mysql://localhost"], says: "no such store yet" },
    { args: [...memory, "--colour", "red"], says: "--colour" },
    { args: [...memory, "extra"], says: "extra" },
    { args: [...memory, "--port", "65536"], says: "--port" },
    { args: [...memory, "--lease-ms", "soon"], says: "--lease-ms" },
    { args: [...memory, "--lease-ms", "10"], says: "leaseMs must be at least" },
    { args: [...memory, "--retention-ms", "9", "--forget-after-ms", "8"], says: "forgetAfterMs" },
    { args: [...memory, "--policy", "none"], says: "--policy" },
    { args: [...memory, "--cache", "http://localhost"], says: "--cache" },
    { args: [...memory, "--downstream", "ftp://localhost"], says: "--downstream" },
    { args: [...memory, "--services", "maybe"], says: "--services" },
    { args: [...memory, "--call-timeout-ms", "0"], says: "--call-timeout-ms" },
    { args: [...memory, "--schema", 'a"b'], says: "--schema" },
  ];
  test.each(sample(refusals, 3))("$args", async ({ args, says }) => {
    const worker = spawnFixture(args);
    expect(await worker.exited).toEqual({ code: 2, signal: null });
    expect(worker.lines).toEqual([]);
    expect(worker.stderr()).toContain(says);
  });
});

describe.runIf(isThorough)("on PGlite", () => {
  test("a second process on the same folder is refused, and so is production", async () => {
    const folder = temporaryFolder();
    const own = await startFixture({ http: "fetch", store: "pglite", args: ["--data", folder] });
    const args = ["--http", "fetch", "--store", "pglite", "--data", folder];
    const second = spawnFixture(args);
    expect(await second.exited).toEqual({ code: 2, signal: null });
    const production = spawnFixture(args, { NODE_ENV: "production" });
    expect(await production.exited).toEqual({ code: 2, signal: null });
    expect(production.stderr()).toContain("production");
    expect(await own.worker.kill("SIGTERM")).toEqual({ code: 0, signal: null });
  });
});

describe("on Postgres", () => {
  test("two processes that start at once make the database and its tables", async () => {
    const url = new URL(await sharedPostgres());
    url.pathname = `/fixture_${randomUUID().replaceAll("-", "")}`;
    const args = ["--schema", "own_schema", "--data", temporaryFolder()];
    const [left, right] = await Promise.all([
      startFixture({ http: "express", store: url.href, args }),
      startFixture({ http: "fetch", store: url.href, args }),
    ]);
    const first = await left.post("/orders", "k", book);
    expectReplay(await right.post("/orders", "k", book), first);
    expect(await right.starts("/orders")).toBe(1);
    await Promise.all([left.worker.kill("SIGTERM"), right.worker.kill("SIGTERM")]);
  });

  test("a server that is not there is exit code 1", async () => {
    const store = "postgres://postgres@127.0.0.1:1/none";
    const worker = spawnFixture(["--http", "express", "--store", store, "--data", temporaryFolder()]);
    expect(await worker.exited).toEqual({ code: 1, signal: null });
    expect(worker.stderr()).toContain("ECONNREFUSED");
    expect(worker.lines).toEqual([]);
  });
});

function expectReplay(again: FixtureAnswer, first: FixtureAnswer): void {
  expect(again).toMatchObject({ status: first.status, replayed: true });
  expect(again.bytes.equals(first.bytes)).toBe(true);
  expect(again.lines("Content-Type")).toEqual(first.lines("Content-Type"));
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : error;
}
