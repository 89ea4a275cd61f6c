/** Postgres under Patroni, behind pgbouncer: the primary is killed under load. */
import { expect, test } from "vitest";
import { createLatchkey } from "../../packages/latchkey/src/index.ts";
import { systemPorts } from "../../packages/latchkey/src/ports.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { committedRows, openPool, prepareDatabase } from "../postgres/harness.ts";
import { notRun } from "../support/not-run.ts";
import { onRelease } from "../support/resources.ts";
import { until } from "../support/until.ts";
import { customers } from "./customers.ts";
import { startFollowed } from "./followed.ts";
import { measured } from "./measured.ts";

const patience = { timeoutMs: 120_000, intervalMs: 50 } as const;

test("the primary is killed: every answer stays, each key's row is there once, and each mail has one id", async ({
  skip,
}) => {
  const followed = await startFollowed();
  if (followed === null) notRun("Patroni behind pgbouncer", "no pgbouncer");
  if (!followed) return skip("a program is missing");
  const { cluster, pooler } = followed;
  await prepareDatabase((await cluster.leader()).url);

  const pool = openPool(pooler.url, { connectionTimeoutMillis: 5_000 });
  const store = postgresStore({ pool, namedStatements: false, notify: false });
  const latchkey = createLatchkey({ store, circuitBreaker: { openMs: 200 } });
  onRelease(async () => void (await latchkey.close()));
  /** By key, the ids under which the other side has seen it: it is outside, and forgets nothing. */
  const mails = new Map<string, Set<string>>();
  const mail = latchkey.effect("mail.send", {
    deduplication: "provider",
    dedupeWindowMs: 86_400_000,
    delivery: { backoffMaxMs: 2_000 },
    async execute({ to }: { to: string }, { key }) {
      mails.set(to, (mails.get(to) ?? new Set()).add(key));
      return null;
    },
  });
  const operation = latchkey.operation("pay");
  const pay = (key: string) =>
    latchkey.run(operation, { tenant: "t", key, input: null }, async ({ tx, attempt }) => {
      await tx.query("insert into business values ($1)", [key]);
      attempt.enqueue(mail, { to: key });
      return { token: systemPorts.random.token() };
    });
  const answers = new Map<string, unknown>();
  /** As a customer does who wants an answer: again and again with the same key. */
  const answered = async (key: string) => {
    const result = await until(async () => {
      const one = await pay(key).catch(() => null);
      return one !== null && "value" in one && one;
    }, patience);
    if (result === false) throw new Error("it has a value");
    answers.set(key, result.value);
    return true;
  };
  latchkey.startWorker();
  const { acknowledged, refusals, stop } = customers(answered);
  await until(() => acknowledged.length > 200, patience);

  const old = await cluster.leader();
  await old.kill9();
  const [killedMs, before] = [performance.now(), acknowledged.length];
  // More than the customers had under way.
  await until(() => acknowledged.length > before + 4, { what: "it goes on", ...patience });
  const seconds = (performance.now() - killedMs) / 1_000;
  expect(await cluster.leader()).not.toBe(old);
  await old.start();
  await cluster.untilWhole();
  const after = acknowledged.length;
  await until(() => acknowledged.length > after + 100, patience);
  await stop();

  expect(refusals).toEqual([]);
  for (const [key, value] of answers) expect(await pay(key)).toMatchObject({ kind: "replay", value });
  expect((await committedRows(pool)).sort()).toEqual([...acknowledged].sort());
  await until(() => mails.size === acknowledged.length, { what: "every mail is sent", ...patience });
  expect([...mails.values()].filter((ids) => ids.size !== 1)).toEqual([]);
  measured("Patroni behind pgbouncer", {
    "primary killed, s": seconds,
    acknowledged: acknowledged.length,
  });
});
