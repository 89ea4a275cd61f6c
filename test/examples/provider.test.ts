/** The simulated payment provider: each way to misbehave, and a ledger that no kill shortens. */
import { appendFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { readLedger } from "../../examples/payments/provider-ledger.ts";
import { spawnWorker, type WorkerProcess } from "../support/processes.ts";

const script = new URL("../../examples/payments/provider.ts", import.meta.url);
const folder = mkdtempSync(join(tmpdir(), "latchkey-provider-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Started {
  readonly worker: WorkerProcess;
  readonly url: string;
  readonly ledger: string;
}

async function start(name: string): Promise<Started> {
  const ledger = join(folder, name, "ledger.jsonl");
  const worker = spawnWorker(script, { env: { PROVIDER_PORT: "0", PROVIDER_LEDGER: ledger } });
  const { url } = await worker.ready();
  return { worker, url: String(url), ledger };
}

const book = { amount: 500, currency: "EUR", description: "a book" };

function ask(provider: Started, path: string, method = "GET", body?: unknown, headers = {}) {
  return fetch(provider.url + path, {
    method,
    headers: { "content-type": "application/json", ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
}

async function charge(provider: Started, key: string | null, mode = "ok", body: unknown = book) {
  const headers = { "x-provider-mode": mode, ...(key !== null && { "idempotency-key": key }) };
  const response = await ask(provider, "/charges", "POST", body, headers);
  const replayed = response.headers.has("idempotent-replayed");
  return { status: response.status, replayed, body: (await response.json()) as Record<string, unknown> };
}

/** Starts a charge that nobody will answer; ends when the provider is gone. */
function chargeInVain(provider: Started, key: string): Promise<unknown> {
  return charge(provider, key, "time-out-after-charging").catch((error: Error) => error);
}

const charged = (provider: Started, id: string) => provider.worker.line((line) => line.id === id);

describe("charges", () => {
  test("once for each key, and once for each request without one", async () => {
    const provider = await start("keys");
    const first = await charge(provider, "k1");
    expect(first).toEqual({
      status: 201,
      replayed: false,
      body: { id: "ch_1", ...book, reference: "k1" },
    });
    expect(await charge(provider, "k1")).toEqual({ ...first, replayed: true });
    expect(await charge(provider, "k1", "ok", { ...book, amount: 1 })).toMatchObject({ status: 422 });
    expect(await charge(provider, null)).toMatchObject({
      status: 201,
      body: { id: "ch_2", reference: null },
    });
    expect(await charge(provider, null)).toMatchObject({ status: 201, body: { id: "ch_3" } });
    expect(readLedger(provider.ledger)).toHaveLength(3);
  });

  test("twenty at once with one key charge once", async () => {
    const provider = await start("race");
    const all = await Promise.all(Array.from({ length: 20 }, () => charge(provider, "k1")));
    expect(all.filter(({ replayed }) => !replayed)).toHaveLength(1);
    expect(new Set(all.map(({ body }) => body.id))).toEqual(new Set(["ch_1"]));
    expect(readLedger(provider.ledger)).toHaveLength(1);
  });

  test.each([[{}], [{ ...book, amount: 0.5 }], [{ ...book, currency: 7 }], [{ ...book, reference: 1 }]])(
    "%j is not a charge",
    async (body) => {
      const provider = await start("bad");
      expect(await charge(provider, "k1", "ok", body)).toMatchObject({ status: 400 });
      expect(readLedger(provider.ledger)).toEqual([]);
    },
  );
});

describe("misbehaviour", () => {
  test("down: 503, nothing happened", async () => {
    const provider = await start("down");
    expect(await charge(provider, "k1", "down")).toMatchObject({ status: 503 });
    expect(readLedger(provider.ledger)).toEqual([]);
    expect(await charge(provider, "k1")).toMatchObject({ status: 201, replayed: false });
  });

  test("refuse: 402 is its final word on this key", async () => {
    const provider = await start("refuse");
    const refused = await charge(provider, "k1", "refuse");
    expect(refused).toMatchObject({ status: 402, replayed: false });
    expect(await charge(provider, "k1")).toEqual({ ...refused, replayed: true });
    expect(await charge(provider, "k2")).toMatchObject({ status: 201 });
    expect(await (await ask(provider, "/charges")).json()).toHaveLength(1);
  });

  test("slow: charges after the wait, also for a caller that has left", async () => {
    const provider = await start("slow");
    await ask(provider, "/mode", "PUT", { mode: "slow", slowMs: 300 });
    const began = performance.now();
    const leaving = new AbortController();
    const left = fetch(`${provider.url}/charges`, {
      method: "POST",
      headers: { "content-type": "application/json", "idempotency-key": "k1" },
      body: JSON.stringify(book),
      signal: leaving.signal,
    }).catch((error: Error) => error.name);
    await provider.worker.line((line) => line.signal === "waiting");
    leaving.abort();
    await charged(provider, "ch_1");
    expect(performance.now() - began).toBeGreaterThan(290); // A timer may fire a millisecond early.
    expect(await left).toBe("AbortError");
    expect(await charge(provider, "k1")).toMatchObject({ status: 201, replayed: true, body: { id: "ch_1" } });
  });

  test("time-out after charging: the same key finds the charge, and no second one happens", async () => {
    const provider = await start("timeout");
    const vain = chargeInVain(provider, "k1");
    await charged(provider, "ch_1");
    expect(await charge(provider, "k1")).toMatchObject({ status: 201, replayed: true, body: { id: "ch_1" } });
    await provider.worker.kill("SIGTERM");
    expect(await vain).toBeInstanceOf(Error);
    expect(readLedger(provider.ledger)).toHaveLength(1);
  });

  test("forgetful: the promise that everything rests on is broken", async () => {
    const provider = await start("forgetful");
    await charge(provider, "k1");
    expect(await charge(provider, "k1", "forgetful")).toMatchObject({ status: 201, body: { id: "ch_2" } });
    expect(readLedger(provider.ledger)).toHaveLength(2);
  });

  test("the mode is switched for everyone, and refused when there is none of that name", async () => {
    const provider = await start("modes");
    expect((await ask(provider, "/mode", "PUT", { mode: "down" })).status).toBe(200);
    expect((await ask(provider, "/charges", "POST", book)).status).toBe(503);
    expect((await ask(provider, "/mode", "PUT", { mode: "ok" })).status).toBe(200);
    expect((await ask(provider, "/charges", "POST", book)).status).toBe(201);
    for (const wrong of [{ mode: "toString" }, { slowMs: -1 }, { mode: 1 }]) {
      expect((await ask(provider, "/mode", "PUT", wrong)).status).toBe(400);
    }
    expect(await charge(provider, "k1", "nonsense")).toMatchObject({ status: 400 });
  });
});

describe("references", () => {
  test("find a charge by its key or by the reference it was given", async () => {
    const provider = await start("lookup");
    await charge(provider, "k1");
    await charge(provider, "k2", "ok", { ...book, reference: "order-2" });
    const find = async (reference: string) =>
      (await (await ask(provider, `/charges?reference=${reference}`)).json()) as { id: string }[];
    expect((await find("k1")).map(({ id }) => id)).toEqual(["ch_1"]);
    expect((await find("order-2")).map(({ id }) => id)).toEqual(["ch_2"]);
    expect(await find("k2")).toEqual([]);
  });

  test("a closed one is never charged; one that was charged is not closed", async () => {
    const provider = await start("close");
    const close = async (reference: string) =>
      (await ask(provider, "/charges/close", "POST", { reference })).json();
    expect(await close("k1")).toEqual({ closed: true });
    expect(await close("k1")).toEqual({ closed: true });
    expect(await charge(provider, "k1")).toMatchObject({ status: 409 });
    const { body } = await charge(provider, "k2");
    expect(await close("k2")).toEqual({ happened: body });
    expect((await ask(provider, "/charges/close", "POST", {})).status).toBe(400);
    expect(readLedger(provider.ledger).map(({ did }) => did)).toEqual(["close", "charge"]);
  });
});

test("the ledger survives kill -9, and a line that was cut short", async () => {
  const provider = await start("kill");
  const answered = await charge(provider, "k1");
  const refused = await charge(provider, "k2", "refuse");
  await ask(provider, "/charges/close", "POST", { reference: "k3" });
  const vain = chargeInVain(provider, "k4");
  await charged(provider, "ch_2");
  await provider.worker.kill("SIGKILL");
  await vain;
  appendFileSync(provider.ledger, '{"did":"charge","key":"k5","cha');
  const before = readLedger(provider.ledger);
  expect(before).toHaveLength(4);

  const again = await start("kill");
  expect(await charge(again, "k1")).toEqual({ ...answered, replayed: true });
  expect(await charge(again, "k2")).toEqual({ ...refused, replayed: true });
  expect(await charge(again, "k3")).toMatchObject({ status: 409 });
  expect(await charge(again, "k4")).toMatchObject({ status: 201, replayed: true, body: { id: "ch_2" } });
  expect(readLedger(again.ledger)).toEqual(before);
  expect(await charge(again, "k5")).toMatchObject({ status: 201, replayed: false, body: { id: "ch_3" } });
  expect(readLedger(again.ledger)).toHaveLength(5);
});
