/** The recipe "Postgres alone, five states": each state is seen from outside, with a worker killed in the middle. */
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type FreshDatabase, freshDatabase } from "../../support/shared-postgres.ts";
import { until } from "../../support/until.ts";
import { type Answer, lockTable, type Recipe, startRecipe } from "./recipe.ts";

let database: FreshDatabase;
let pool: pg.Pool;

beforeAll(async () => {
  database = await freshDatabase();
  pool = new pg.Pool({ connectionString: database.url });
});

afterAll(async () => {
  await pool.end();
  await database.drop();
});

const start = (env: Record<string, string> = {}) =>
  startRecipe("five-states/service.ts", { DATABASE_URL: database.url, ...env });

const ask = (service: Recipe, key: string, month: string) => service.post("/reports", key, { month });

/** The status resource's answer once it has this status. */
async function polled(service: Recipe, accepted: Answer, status: number): Promise<Answer | undefined> {
  const location = accepted.headers.get("location") ?? "";
  return until(
    async () => {
      const answer = await service.get(location);
      return answer.status === status ? answer : undefined;
    },
    { what: `${location} answers ${status}`, timeoutMs: 60_000 },
  );
}

const stateIn = (answer: Answer) => (JSON.parse(answer.body) as { status: string }).status;

async function reports(month: string): Promise<number> {
  const { rows } = await pool.query("select count(*)::int as count from reports where month = $1", [month]);
  return rows[0].count;
}

test("pending, running, its worker is killed, another one finishes; one report", async () => {
  const web = await start({ WORKER: "off" });
  const accepted = await ask(web, "report-1", "2026-10");
  expect(accepted).toMatchObject({ status: 202, replayed: false });
  expect(stateIn(await web.get(accepted.headers.get("location") ?? ""))).toBe("pending");
  expect(accepted.headers.get("retry-after")).toBe("1");
  // A web process runs nothing, also when it is asked again.
  expect((await ask(web, "report-1", "2026-10")).status).toBe(202);
  expect((await ask(web, "report-1", "2026-11")).status).toBe(422);
  expect(
    (await web.get(accepted.headers.get("location") ?? "", { authorization: "Bearer other" })).status,
  ).toBe(401);

  const free = await lockTable(database.url, "reports");
  const worker = await start();
  await until(async () => stateIn(await web.get(accepted.headers.get("location") ?? "")) === "running");
  await worker.worker.kill("SIGKILL");
  await free();
  const next = await start();
  const answer = await polled(web, accepted, 201);
  await next.worker.line(({ text }) => String(text).startsWith("taken over "));
  expect(await ask(web, "report-1", "2026-10")).toMatchObject({
    status: 201,
    replayed: true,
    body: answer?.body,
  });
  expect(await reports("2026-10")).toBe(1);
  expect((await next.get("/metrics")).body).toContain("api_idempotency_zombie_key_total");
});

test("a report that fails each time is a stored 500 in the end", async () => {
  const service = await start();
  const accepted = await ask(service, "report-2", "2026-13");
  const answer = await polled(service, accepted, 500);
  expect(answer?.body).toContain("attempts-spent");
  expect(await ask(service, "report-2", "2026-13")).toMatchObject({
    status: 500,
    replayed: true,
    body: answer?.body,
  });
  expect(await reports("2026-13")).toBe(0);
});

test("what is done expires, and is forgotten after that", async () => {
  const service = await start({ RETENTION_SECONDS: "3" });
  const accepted = await ask(service, "report-3", "2026-09");
  await polled(service, accepted, 201);
  expect((await polled(service, accepted, 410))?.body).toContain("expired");
  expect((await ask(service, "report-3", "2026-09")).status).toBe(410);
  await polled(service, accepted, 404);
  // The key is new again.
  expect((await ask(service, "report-3", "2026-09")).status).toBe(202);
  await until(async () => (await reports("2026-09")) === 2);
});
