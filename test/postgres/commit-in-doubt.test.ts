import type pg from "pg";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import type { PostgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { isCommit, isCommitReply } from "../support/postgres-messages.ts";
import { postgresVersions } from "../support/shared-postgres.ts";
import { type Hold, startProxy, type TcpProxy } from "../support/tcp-proxy.ts";
import { backendPid, deferred, untilBlocked } from "../support/until.ts";
import { countRows, newKey, newLife, request, supportOf, writing } from "./arrange.ts";
import { endlessMs, expectNoLeak, migratedDatabase, openPool, patientClock, type TestTx } from "./harness.ts";

const shortMs = 60;
const longMs = 10_000;

describe.each(postgresVersions())("COMMIT in doubt on PostgreSQL %i", (version) => {
  let direct: string;
  let proxy: TcpProxy;
  let observer: pg.Pool;
  let pool: pg.Pool;
  let store: PostgresStore<TestTx>;
  let giveUp: () => void;

  beforeAll(async () => {
    direct = await migratedDatabase(version);
    proxy = await startProxy({ to: { port: Number(new URL(direct).port) } });
    observer = openPool(direct);
  });

  beforeEach(async () => {
    pool = openPool(proxy.url(direct), { max: 4 });
    const patience = patientClock();
    giveUp = patience.giveUp;
    store = postgresStore({ pool, statementTimeoutMs: endlessMs, ports: patience.ports });
    // Connections, prepared statements and the lock's secret are there before the network misbehaves.
    await writing(store, newLife(newKey()));
    return async () => {
      await proxy.pass();
      await expectNoLeak(pool);
      await pool.end();
    };
  });

  /** Commits the life; when the network keeps the message back, the client gives up. */
  async function givingUp(life: ReturnType<typeof newLife>, hold: Hold) {
    const run = writing(store, life);
    await hold.held();
    giveUp();
    return run;
  }

  const resolve = (life: ReturnType<typeof newLife>, timeoutMs: number) =>
    supportOf(store).resolve(life, life.id, life.fence, timeoutMs);

  test("its bytes are held in the network and delivered late: the resolver never says rolled back", async () => {
    const life = newLife(newKey());
    const hold = proxy.holdWhen(isCommit);
    expect((await givingUp(life, hold)).kind).toBe("in_doubt");
    expect(await resolve(life, shortMs), "the transaction can still commit").toBe("in_doubt");
    expect((await store.read(life)).record, "and nothing was inserted by asking").toBeNull();
    hold.release();
    expect(await resolve(life, longMs)).toBe("committed");
    expect(await countRows(observer, life)).toBe(1);
  });

  test("insert and COMMIT are both held: the same", async () => {
    const life = newLife(newKey());
    const hold = proxy.holdWhen(
      ({ sql }) => sql?.includes("insert into") === true && sql.includes("records") === true,
    );
    expect((await givingUp(life, hold)).kind).toBe("in_doubt");
    const settled = resolve(life, longMs);
    hold.release();
    expect(await settled).toBe("committed");
    expect(await countRows(observer, life)).toBe(1);
  });

  test("its bytes never arrive: rolled back, and the key runs once more", async () => {
    const life = newLife(newKey());
    const hold = proxy.holdWhen(isCommit);
    expect((await givingUp(life, hold)).kind).toBe("in_doubt");
    hold.drop();
    expect(await resolve(life, longMs)).toBe("rolled_back");
    expect(await countRows(observer, life)).toBe(0);
    expect((await writing(store, newLife(life))).kind).toBe("committed");
    expect(await countRows(observer, life)).toBe(1);
  });

  test("its reply is lost: committed", async () => {
    const life = newLife(newKey());
    const hold = proxy.holdReplyWhen(isCommitReply);
    expect((await givingUp(life, hold)).kind).toBe("in_doubt");
    hold.drop();
    expect(await resolve(life, longMs)).toBe("committed");
  });

  test("the connection is reset while it runs: settled either way", async () => {
    const life = newLife(newKey());
    const hold = proxy.holdReplyWhen(isCommitReply);
    const run = writing(postgresStore({ pool }), life);
    await hold.held();
    hold.drop();
    expect((await run).kind).toBe("in_doubt");
    expect(await resolve(life, longMs)).toBe("committed");
  });

  test("the backend dies in the middle of the closing flight: rolled back", async () => {
    const life = newLife(newKey());
    const blocker = await observer.connect();
    await blocker.query("begin");
    // An uncommitted row of the same key blocks our upsert, after the look-up has seen nothing.
    const ready = deferred<number>();
    const run = writing(postgresStore({ pool }), life, async ({ tx }) => {
      ready.resolve(await backendPid(tx));
      await blocker.query(
        `insert into latchkey.records (tenant, scope, key, id, operation, state, fingerprint_version, fingerprint,
           attempt, token, created_at, expires_at)
         values ($1, $2, $3, gen_random_uuid(), 'x', 'pending', 1, '', 1, gen_random_uuid(), now(), now())`,
        [life.tenant, life.scope, life.key],
      );
    });
    const pid = await ready.promise;
    await untilBlocked(direct, pid);
    await observer.query("select pg_terminate_backend($1)", [pid]);
    expect((await run).kind).toBe("in_doubt");
    await blocker.query("rollback");
    blocker.release();
    expect(await resolve(life, longMs)).toBe("rolled_back");
    expect(await countRows(observer, life)).toBe(0);
  });

  test("nobody can be asked: in doubt, within the time that was given", async () => {
    const life = newLife(newKey());
    await proxy.cut();
    expect(await resolve(life, shortMs)).toBe("in_doubt");
  });

  test("the database comes back while the resolver waits: settled", async () => {
    const life = newLife(newKey());
    expect((await writing(store, life)).kind).toBe("committed");
    await proxy.cut();
    const settled = resolve(life, longMs);
    await proxy.pass();
    expect(await settled).toBe("committed");
  });

  test("through the whole of Latchkey, the caller gets the first answer and one row is there", async () => {
    const latchkey = createLatchkey({ store });
    const operation = latchkey.operation("orders.create");
    const { key } = newKey();
    const row = { tenant: "t", scope: "orders.create", key };
    const submit = () =>
      latchkey.run(operation, { tenant: "t", key, input: { amount: 1 } }, async ({ tx }) => {
        await tx.query("insert into business values ($1)", [key]);
        return { id: 1 };
      });
    const hold = proxy.holdWhen(isCommit);
    const first = submit();
    await hold.held();
    giveUp();
    const second = await submit();
    expect(second.kind, "the doubtful transaction still holds the key").toBe("in_progress");
    hold.release();
    expect(await first).toMatchObject({ kind: "executed", value: { id: 1 } });
    expect(await submit()).toMatchObject({ kind: "replay", value: { id: 1 } });
    expect(await countRows(observer, row)).toBe(1);
  });

  test("the look-up's transaction leaves no trace when its reply is lost", async () => {
    const life = newLife(newKey());
    const hold = proxy.holdReplyWhen(({ tag }) => tag === "BEGIN");
    let ran = false;
    const run = supportOf(store).run(request(life), async () => {
      ran = true;
      return { end: "rollback", value: "" };
    });
    void hold.held().then(giveUp);
    await expect(run).rejects.toMatchObject({ code: "store-unavailable", certainty: "rolled_back" });
    expect(ran).toBe(false);
    hold.drop();
  });
});
