/** What a dump of the database shows of what callers sent and got, with and without encryption. */
import { randomBytes } from "node:crypto";
import type pg from "pg";
import { beforeAll, describe, expect, test } from "vitest";
import { run as runCommand } from "../../packages/latchkey/src/cli/run.ts";
import type { Codec } from "../../packages/latchkey/src/codec.ts";
import { encryptionCodec } from "../../packages/latchkey/src/encryption.ts";
import { fetchProtect, fetchServe } from "../../packages/latchkey/src/http/fetch/fetch.ts";
import { createLatchkey, EffectRefused, type LatchkeyEvent } from "../../packages/latchkey/src/index.ts";
import { migratePostgres, postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { effectDispatcher } from "../../packages/latchkey/src/workers/effect-dispatcher.ts";
import { onRelease } from "../support/resources.ts";
import { freshDatabase } from "../support/shared-postgres.ts";
import { openPool } from "./harness.ts";

/** Each stands in one place only. What goes out and comes back is what the other side does with it. */
const canaries = {
  request: "canary-request-7c1d",
  answer: "canary-answer-93fe",
  header: "canary-header-b20a",
  servedInput: "canary-served-input-11ce",
  phaseResult: "canary-phase-result-4af0",
  callInput: "canary-call-input-8e72",
  callResult: "canary-call-result-d5b6",
  refusal: "canary-refusal-2f9c",
  settled: "canary-settled-6a3b",
  effectInput: "canary-effect-input-e841",
  effectResult: "canary-effect-result-057d",
  deadInput: "canary-dead-input-c9f3",
  deferredInput: "canary-deferred-input-3d58",
} as const;
/** A handler's request body is not stored at all, only its digest. */
const stored = Object.entries(canaries).flatMap(([name, canary]) => (name === "request" ? [] : [canary]));

const codec = () => encryptionCodec({ keys: { "2026-11": randomBytes(32) }, current: "2026-11" });

async function prepared() {
  const { url, drop } = await freshDatabase();
  onRelease(drop);
  const pool = openPool(url);
  await migratePostgres(pool);
  await pool.query("create table business (row text)");
  const store = postgresStore({ pool });
  onRelease(() => store.close());
  return { url, pool, store };
}

type Prepared = Awaited<ReturnType<typeof prepared>>;

/** Does everything of which something is stored. Answers what the service reported, and what callers got. */
async function live({ store }: Prepared, withCodec: { readonly codec?: Codec }) {
  const events: LatchkeyEvent[] = [];
  const latchkey = createLatchkey({ store, onEvent: (event) => events.push(event), ...withCodec });
  const http = { tenant: () => "acme" };
  const single = { attemptsMax: 1, backoffMs: 1 };
  const mail = latchkey.effect<{ to: string }, { id: string }>("mail", {
    deduplication: "none",
    execute: async () => ({ id: canaries.effectResult }),
  });
  const dying = latchkey.effect<{ to: string }, null>("dying", {
    deduplication: "none",
    delivery: single,
    execute: async () => {
      throw new EffectRefused();
    },
  });
  const charge = latchkey.effect<{ card: string; refuse: boolean }, { id: string }>("charge", {
    deduplication: "none",
    retry: { attempts: 1 },
    execute: async ({ refuse }) => {
      if (refuse) throw new EffectRefused({ detail: { reason: canaries.refusal } });
      return { id: canaries.callResult };
    },
  });
  const orders = latchkey.operation("orders.create");
  const create = fetchProtect(latchkey, http)(orders, async (request, { tx, attempt }) => {
    await tx.query("insert into business values ($1)", [await request.text()]);
    attempt.enqueue(mail, { to: canaries.effectInput });
    attempt.enqueue(dying, { to: canaries.deadInput });
    return Response.json(
      { id: canaries.answer },
      { status: 201, headers: { Location: `/orders/${canaries.header}` } },
    );
  });
  const payments = latchkey.operation("payments.charge", {
    execution: "lease",
    version: "1",
    run: async ({ note }: { note: string }, attempt) => {
      await attempt.phase("order", async () => canaries.phaseResult);
      await attempt.call("charged", charge, { card: canaries.callInput, refuse: false });
      await attempt
        .call("declined", charge, { card: canaries.callInput, refuse: true })
        .catch((error: EffectRefused) => error.detail);
      if (note !== "") throw new Error("not yet");
      return { status: 200 };
    },
  });
  const pay = fetchServe(latchkey, http)(payments, () => ({ note: canaries.servedInput }));
  const lost = latchkey.operation("lost.charge", { execution: "lease" });
  const post = (key: string) =>
    new Request("https://api.example/orders", {
      method: "POST",
      headers: { "Idempotency-Key": key },
      body: canaries.request,
    });
  const first = await create(post("order"));
  const replay = await create(post("order"));
  await pay(post("payment")).catch(() => {});
  await latchkey
    .run(lost, { tenant: "acme", key: "l", input: null }, () => Promise.reject(new Error("?")))
    .catch(() => {});
  const { record } = await latchkey.runtime.store.read({ tenant: "acme", scope: "lost.charge", key: "l" });
  await latchkey.settle(
    { tenant: "acme", operation: "lost.charge", key: "l", recordId: record?.id ?? "" },
    { completed: { body: canaries.settled } },
  );
  const reports = latchkey.operation("reports.make", {
    execution: "deferred",
    version: "1",
    run: async () => ({ status: 200 }),
  });
  const month = canaries.deferredInput;
  await latchkey.run(reports, { tenant: "acme", key: "report", input: { month } });
  await effectDispatcher(latchkey).runOnce();
  return {
    events,
    answers: [await first.json(), await replay.json()],
    location: replay.headers.get("Location"),
  };
}

/** Everything in every table of Latchkey's. */
async function dump(pool: pg.Pool): Promise<string> {
  const { rows: tables } = await pool.query<{ name: string }>(
    "select quote_ident(table_name) as name from information_schema.tables where table_schema = 'latchkey'",
  );
  const client = await pool.connect();
  const texts: string[] = [];
  for (const { name } of tables) {
    for (const form of ["hex", "escape"]) {
      await client.query(`set bytea_output = ${form}`);
      const { rows } = await client.query<{ row: string }>(`select t::text as row from latchkey.${name} t`);
      texts.push(`${name}:`, ...rows.map(({ row }) => row));
    }
  }
  client.release(true);
  return texts.join("\n");
}

/** A canary may hide in hexadecimal or base64. */
const forms = (canary: string) => [
  canary,
  Buffer.from(canary).toString("hex"),
  Buffer.from(canary).toString("base64").replace(/=+$/u, ""),
];
const found = (text: string, all: readonly string[]) =>
  all.filter((canary) => forms(canary).some((form) => text.includes(form)));

async function commandOutput(url: string): Promise<string> {
  const out: string[] = [];
  const commands = [
    ["list", "--state", "completed"],
    ["list", "--dead"],
    ["inspect", "acme", "orders.create", "order"],
    ["inspect", "acme", "payments.charge", "payment"],
    ["inspect", "acme", "lost.charge", "l"],
    ["inspect", "acme", "reports.make", "report"],
  ];
  for (const args of commands.flatMap((command) => [command, [...command, "--json"]])) {
    const exitCode = await runCommand({
      args,
      env: { DATABASE_URL: url },
      cwd: process.cwd(),
      print: (text) => out.push(text),
      complain: (text) => out.push(text),
    });
    expect(exitCode, out.at(-1)).toBe(0);
  }
  return out.join("\n");
}

function eventText(events: readonly LatchkeyEvent[]): string {
  return events
    .map((event) => {
      const error = "error" in event && event.error instanceof Error ? event.error : null;
      return `${JSON.stringify(event)} ${error?.stack ?? ""} ${JSON.stringify(error?.cause ?? null)}`;
    })
    .join("\n");
}

describe("what a look into the database shows", () => {
  let plain: Prepared;
  let sealed: Prepared;
  let sealedLife: Awaited<ReturnType<typeof live>>;

  beforeAll(async () => {
    plain = await prepared();
    await live(plain, {});
    sealed = await prepared();
    sealedLife = await live(sealed, { codec: codec() });
  });

  test("without a codec the dump has every canary but that of the body: the search finds them", async () => {
    const text = await dump(plain.pool);
    expect(found(text, stored)).toEqual(stored);
    expect(found(text, [canaries.request])).toEqual([]);
    expect(found(await commandOutput(plain.url), stored).length).toBeGreaterThan(5);
  });

  test("encrypted, the dump has none, and everything was still done", async () => {
    const { answers, location } = sealedLife;
    expect(answers).toEqual([{ id: canaries.answer }, { id: canaries.answer }]);
    expect(location).toBe(`/orders/${canaries.header}`);
    const text = await dump(sealed.pool);
    expect(text, "it is a dump of what happened").toMatch(/orders\.create[\s\S]*payments\.charge/u);
    expect(text).toContain("dead");
    expect(text).toContain("delivered");
    expect(found(text, Object.values(canaries))).toEqual([]);
  });

  test("nor has the command line, which has no keys, or an event", async () => {
    const out = await commandOutput(sealed.url);
    expect(out).toContain("not readable here");
    expect(found(out, Object.values(canaries))).toEqual([]);
    expect(sealedLife.events.map(({ type }) => type)).toEqual(
      expect.arrayContaining(["executed", "replayed", "settled"]),
    );
    expect(found(eventText(sealedLife.events), Object.values(canaries))).toEqual([]);
  });
});

describe("rows that an intruder in the database, without a key, has changed", () => {
  /** Two tenants' orders, then `change`; answers what the first tenant's retry gets. */
  async function retryAfter(change: string) {
    const { pool, store } = await prepared();
    const latchkey = createLatchkey({ store, codec: codec() });
    const operation = latchkey.operation("orders.create", { writes: "none" });
    let runs = 0;
    const submit = (tenant: string, key: string) =>
      latchkey.run(operation, { tenant, key, input: null }, async () => ({ tenant, key, runs: ++runs }));
    for (const [tenant, key] of [
      ["acme", "k-1"],
      ["acme", "k-2"],
      ["other", "k-1"],
    ] as const) {
      await submit(tenant, key);
    }
    await pool.query(change);
    const answered = await submit("acme", "k-1").catch((error: unknown) => error);
    expect(runs, "nothing runs again").toBe(3);
    return answered;
  }

  const answerOf = (tenant: string, key: string) =>
    `(select answer from latchkey.records where tenant = '${tenant}' and key = '${key}')`;
  const mine = "tenant = 'acme' and key = 'k-1'";

  test("unchanged, the retry is a replay", async () => {
    expect(await retryAfter("select 1")).toMatchObject({
      kind: "replay",
      value: { tenant: "acme", runs: 1 },
    });
  });

  test.each([
    [
      "another tenant's answer",
      `update latchkey.records set answer = ${answerOf("other", "k-1")} where ${mine}`,
    ],
    ["another key's answer", `update latchkey.records set answer = ${answerOf("acme", "k-2")} where ${mine}`],
    [
      "another tenant's row",
      `delete from latchkey.records where ${mine};
       update latchkey.records set tenant = 'acme' where tenant = 'other'`,
    ],
    ["another life's id", `update latchkey.records set id = gen_random_uuid() where ${mine}`],
    [
      "one changed bit",
      `update latchkey.records set answer = set_bit(answer, 200, 1 - get_bit(answer, 200)) where ${mine}`,
    ],
  ])("%s does not decode", async (_, change) => {
    expect(await retryAfter(change)).toMatchObject({ code: "decryption-failed" });
  });

  test("a plain answer in its place is refused", async () => {
    const forged = Buffer.from('{"v":1,"s":200,"h":[],"o":null}\n{"forged":true}').toString("hex");
    expect(
      await retryAfter(`update latchkey.records set answer = '\\x${forged}' where ${mine}`),
    ).toMatchObject({ code: "not-encrypted" });
  });

  test("an effect's input does not go to another effect", async () => {
    const { pool, store } = await prepared();
    const latchkey = createLatchkey({ store, codec: codec() });
    const got: unknown[] = [];
    const [pay, tell] = (["pay", "tell"] as const).map((name) =>
      latchkey.effect<unknown, null>(name, {
        deduplication: "none",
        delivery: { attemptsMax: 1 },
        execute: async (input) => {
          got.push([name, input]);
          return null;
        },
      }),
    );
    if (pay === undefined || tell === undefined) throw new Error("both are defined");
    const operation = latchkey.operation("orders.create", { writes: "none" });
    await latchkey.run(operation, { tenant: "acme", key: "k", input: null }, async ({ attempt }) => {
      attempt.enqueue(pay, "secret");
      attempt.enqueue(pay, "mine");
    });
    await pool.query("update latchkey.outbox set aggregatetype = 'tell' where index = 0");
    expect(await effectDispatcher(latchkey).runOnce()).toMatchObject({ delivered: 1, dead: 1 });
    expect(got).toEqual([["pay", "mine"]]);
  });
});
