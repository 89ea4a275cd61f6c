/** The fixture's charges, against a provider that is a process of its own and misbehaves when asked to. */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type Fixture, type FixtureAnswer, startFixture, temporaryFolder } from "../support/fixture.ts";
import { patient } from "../support/patience.ts";
import { spawnWorker, type WorkerProcess } from "../support/processes.ts";
import { releaseAll } from "../support/resources.ts";
import { type FreshDatabase, freshDatabase } from "../support/shared-postgres.ts";
import { isThorough } from "../support/thorough.ts";
import { until } from "../support/until.ts";
import { somePlaces, stores } from "./places.ts";

/** What becomes of a call does not depend on the front end. */
const troubled = stores
  .filter((store) => isThorough || store === "postgres")
  .map((store) => ({ http: "express", store }));
const paths = ["/charges", "/charges-lookup"] as const;

interface Charge {
  readonly id: string;
  readonly amount: number;
  readonly reference: string | null;
}

let provider: { readonly worker: WorkerProcess; readonly url: string };
/** Amounts tell the charges of tests apart. */
let amounts = 0;

beforeAll(async () => {
  const script = new URL("../../examples/payments/provider.ts", import.meta.url);
  const env = { PROVIDER_PORT: "0", PROVIDER_LEDGER: `${temporaryFolder()}/provider.jsonl` };
  const worker = spawnWorker(script, { env });
  provider = { worker, url: String((await worker.ready()).url) };
});
beforeEach(() => misbehave("ok"));
afterAll(releaseAll);

async function misbehave(mode: string): Promise<void> {
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ mode });
  expect((await fetch(`${provider.url}/mode`, { method: "PUT", headers, body })).ok).toBe(true);
}

async function charged(amount: number): Promise<readonly Charge[]> {
  const charges = (await (await fetch(`${provider.url}/charges`)).json()) as Charge[];
  return charges.filter((charge) => charge.amount === amount);
}

interface Place {
  readonly start: (args?: readonly string[]) => Promise<Fixture>;
  readonly end: () => Promise<void>;
}

async function prepare({ http, store }: { readonly http: string; readonly store: string }): Promise<Place> {
  let database: FreshDatabase | undefined;
  if (store === "postgres") database = await freshDatabase();
  const common = ["--data", temporaryFolder(), "--downstream", provider.url, "--lease-ms", "1000"];
  const started: Fixture[] = [];
  return {
    async start(args = []) {
      const all = [...common, "--call-timeout-ms", String(Math.round(patient(300))), ...args];
      const fixture = await startFixture({ http, store: database?.url ?? store, args: all });
      started.push(fixture);
      return fixture;
    },
    async end() {
      for (const { worker } of started) await worker.stop();
      await database?.drop();
    },
  };
}

function charge(fixture: Fixture, path: string, key: string, amount: unknown): Promise<FixtureAnswer> {
  return fixture.post(path, key, { body: { amount } });
}

/** Asks until there is a final answer. */
async function settled(fixture: Fixture, path: string, key: string, amount: number): Promise<FixtureAnswer> {
  let answer = await charge(fixture, path, key, amount);
  await until(
    async () => {
      answer = await charge(fixture, path, key, amount);
      return answer.status !== 409;
    },
    { what: `${path} is settled` },
  );
  return answer;
}

const rowsOf = async (fixture: Fixture, key: string) =>
  (await fixture.ledger()).filter((row) => row.key === key);

describe.each(somePlaces)("$http on $store", (combination) => {
  let place: Place;
  let fixture: Fixture;
  beforeAll(async () => {
    place = await prepare(combination);
    fixture = await place.start();
  });
  afterAll(() => place?.end());

  test.each(paths)("%s charges once, and answers the same again", async (path) => {
    const amount = ++amounts;
    const key = `once${path}`;
    const first = await charge(fixture, path, key, amount);
    expect(first).toMatchObject({ status: 201, replayed: false });
    const { orderId, chargeId } = first.json() as { orderId: string; chargeId: string };
    const second = await charge(fixture, path, key, amount);
    expect(second).toMatchObject({ status: 201, replayed: true, text: first.text });
    expect(second.lines("Content-Type")).toEqual(first.lines("Content-Type"));
    expect(await charged(amount)).toMatchObject([
      { id: chargeId, reference: expect.stringMatching(/.{20}/u) },
    ]);
    expect(await rowsOf(fixture, key)).toMatchObject([{ id: orderId, amount, attempt: 1 }]);
    expect(await fixture.starts(path)).toBe(1);
    const misuse = await charge(fixture, path, key, amount + 0.5);
    expect([misuse.status, misuse.json()]).toMatchObject([422, { code: "key-misuse" }]);
  });

  test.each(paths)(
    "%s refuses what is no charge, and the mended one runs with the same key",
    async (path) => {
      const key = `mended${path}`;
      const refused = await charge(fixture, path, key, "much");
      expect([refused.status, refused.replayed]).toEqual([400, false]);
      expect(await rowsOf(fixture, key)).toEqual([]);
      expect(await charge(fixture, path, key, ++amounts)).toMatchObject({ status: 201, replayed: false });
      expect((await fixture.post(path, key, { body: { amount: amounts }, tenant: null })).status).toBe(401);
    },
  );
});

describe.runIf(isThorough).each(troubled)("where the provider misbehaves, $http on $store", (combination) => {
  let place: Place;
  let fixture: Fixture;
  beforeAll(async () => {
    place = await prepare(combination);
    fixture = await place.start();
  });
  afterAll(() => place?.end());

  test.each(paths)("%s: a charge whose answer is lost is settled by the services, once", async (path) => {
    const amount = ++amounts;
    const key = `lost${path}`;
    const before = await fixture.starts(path);
    await misbehave("time-out-after-charging");
    const lost = await charge(fixture, path, key, amount);
    expect([lost.status, lost.json()]).toMatchObject([409, { code: "outcome-unknown" }]);
    await misbehave("ok");
    // Nobody asks again, so that only the services can have gone on.
    await until(async () => (await fixture.starts(path)) === before + 2, { what: "the work goes on" });
    const answer = await settled(fixture, path, key, amount);
    const [made, ...others] = await charged(amount);
    expect(others).toEqual([]);
    expect(answer).toMatchObject({ status: 201, replayed: true });
    expect(answer.json()).toMatchObject({ chargeId: made?.id });
    expect(await rowsOf(fixture, key)).toHaveLength(1);
    expect(await fixture.starts(path), "the resumed run is a start").toBe(before + 2);
  });

  test("/charges-lookup: a charge that never happened is closed, and fails for good", async () => {
    const amount = ++amounts;
    await misbehave("down");
    const lost = await charge(fixture, "/charges-lookup", "closed", amount);
    expect([lost.status, lost.json()]).toMatchObject([409, { code: "outcome-unknown" }]);
    await misbehave("ok");
    const answer = await settled(fixture, "/charges-lookup", "closed", amount);
    expect([answer.status, answer.replayed, answer.json()]).toMatchObject([
      502,
      true,
      { code: "closed-downstream" },
    ]);
    expect(await charged(amount)).toEqual([]);
    expect(await rowsOf(fixture, "closed")).toHaveLength(1);
  });

  test("/charges: what the provider refuses is refused for good", async () => {
    const amount = ++amounts;
    await misbehave("refuse");
    const first = await charge(fixture, "/charges", "refused", amount);
    expect([first.status, first.json()]).toMatchObject([502, { code: "effect-refused" }]);
    await misbehave("ok");
    const second = await charge(fixture, "/charges", "refused", amount);
    expect(second).toMatchObject({ status: 502, replayed: true, text: first.text });
    expect(await charged(amount)).toEqual([]);
  });

  test("after a reset the charges begin anew", async () => {
    const amount = ++amounts;
    const first = await charge(fixture, "/charges", "reset", amount);
    expect((await fixture.request("/reset", { method: "POST", tenant: null })).status).toBe(204);
    expect(await rowsOf(fixture, "reset")).toEqual([]);
    const second = await charge(fixture, "/charges", "reset", amount);
    expect(second).toMatchObject({ status: 201, replayed: false });
    expect(second.text).not.toBe(first.text);
  });

  test.skipIf(combination.store === "memory").each(paths)(
    "%s: the process dies and its client stays away; the next process finishes the charge",
    async (path) => {
      const amount = ++amounts;
      const key = `killed${path}`;
      const before = await fixture.starts(path);
      await misbehave("time-out-after-charging");
      const lost = charge(fixture, path, key, amount).catch((error: Error) => error);
      await provider.worker.line((line) => line.signal === "charged" && line.amount === amount);
      await fixture.worker.kill("SIGKILL");
      expect(await lost).toBeInstanceOf(Error);
      await misbehave("ok");
      fixture = await place.start();
      await until(async () => (await fixture.starts(path)) === before + 2, { what: "the work goes on" });
      const answer = await settled(fixture, path, key, amount);
      expect(answer).toMatchObject({ status: 201, replayed: true });
      expect(await charged(amount)).toHaveLength(1);
      expect(await rowsOf(fixture, key)).toHaveLength(1);
    },
  );
});

test.runIf(isThorough)("--services off leaves a charge in doubt to whoever runs them", async () => {
  const amount = ++amounts;
  const place = await prepare({ http: "node", store: "memory" });
  const fixture = await place.start(["--services", "off"]);
  await misbehave("time-out-after-charging");
  expect((await charge(fixture, "/charges-lookup", "k", amount)).status).toBe(409);
  expect(fixture.worker.stderr()).not.toContain("reconcile");
  expect(await fixture.worker.kill("SIGTERM")).toEqual({ code: 0, signal: null });
  await place.end();
});
