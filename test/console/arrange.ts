/** A console over a real store, on a server of its own. */
import type pg from "pg";
import { createLatchkey, type Latchkey, type LatchkeyEvent } from "../../packages/latchkey/src/index.ts";
import { createOperator } from "../../packages/latchkey/src/operator/index.ts";
import { systemPorts } from "../../packages/latchkey/src/ports.ts";
import type { PgTx } from "../../packages/latchkey/src/stores/postgres.ts";
import {
  type ConsoleOptions,
  consoleHandler,
  createHistory,
  type History,
  serveConsole,
} from "../../packages/latchkey-console/src/index.ts";
import { bareDoubt, callInDoubt, keyOf, openPlace, type Place } from "../cli/arrange.ts";

export const token = "a token of the tests";

type Tx = PgTx<pg.Pool>;

export interface World {
  readonly place: Place;
  readonly latchkey: Latchkey<Tx>;
  readonly history: History;
  /** Has the history count an event of so long ago. Oldest first. */
  remember(agoMs: number, event: LatchkeyEvent): void;
  /** Makes an effect and has it die. */
  killEffect(key: string, errorCode: string, tenant?: string): Promise<void>;
  close(): Promise<void>;
}

/**
 * A service on its own Postgres, whose effects no worker delivers.
 *
 * @param startedAgoMs when its process began, for the history
 */
export async function openWorld(startedAgoMs = 0): Promise<World> {
  const place = await openPlace();
  let pastMs = startedAgoMs;
  const history = createHistory({ clock: { wallMs: () => Date.now() - pastMs } });
  pastMs = 0;
  const latchkey = createLatchkey({ store: place.store, onEvent: history.onEvent });
  const receipt = latchkey.effect("receipt.send", {
    deduplication: "none",
    execute: async (_: unknown) => null,
  });
  const create = latchkey.operation("payments.create", { execution: "transaction", writes: "none" });
  latchkey.operation("payments.charge", { execution: "lease" });
  latchkey.effect("provider.charge", {
    deduplication: "provider",
    dedupeWindowMs: 86_400_000,
    execute: async (_: unknown) => null,
  });
  return {
    place,
    latchkey,
    history,
    remember: (ms, event) => {
      pastMs = ms;
      history.onEvent(event);
      pastMs = 0;
    },
    async killEffect(key, errorCode, tenant = "account-1") {
      await latchkey.run(create, { tenant, key, input: null }, async ({ attempt }) => {
        attempt.enqueue(receipt, { to: key });
        return { id: key };
      });
      const { outbox } = place.store;
      const want = [{ effect: "receipt.send", limit: 100 }];
      const claimed = (await outbox?.claim(want, systemPorts.random.token(), 60_000)) ?? [];
      const claims = claimed.map(({ id, fence }) => ({ id, fence }));
      if (errorCode === "call-in-doubt") await outbox?.start(claims, 60_000);
      await outbox?.end(claims.map((claim) => ({ ...claim, event: "die", errorCode, returned: false })));
    },
    close: () => place.close(),
  };
}

/** Some of everything that waits. */
export async function fill(world: World): Promise<void> {
  const { place } = world;
  for (const n of [1, 2, 3, 4, 5, 6])
    await callInDoubt(place, keyOf(`order-8821${n}`, { tenant: n % 2 ? "acme" : "globex" }));
  await bareDoubt(place, keyOf("inv_2026_11_0410", { tenant: "hooli" }));
  for (const n of [1, 2, 3]) await world.killEffect(`order-8809${n}`, "attempts-spent", "acme");
  await world.killEffect("order-88100", "call-in-doubt", "globex");
}

/** What two people decided before. */
export async function decideSome({ place, latchkey, killEffect }: World): Promise<void> {
  const operator = createOperator({ latchkey });
  const ada = { operator: "ada", reason: "The provider shows no charge, ticket PAY-2287" };
  const grace = { operator: "grace", reason: "The customer has the receipt from the shop" };
  const key = keyOf("order-87002", { tenant: "acme" });
  await callInDoubt(place, key);
  const { items: unknown } = await operator.records("unknown", { tenant: "acme" });
  const doubtful = unknown.find((one) => one.key === key.key);
  if (doubtful === undefined) throw new Error("it is unknown");
  await operator.settle(
    { recordId: doubtful.id, attempt: doubtful.attempt },
    { outcome: "failed", answer: { status: 402, body: { error: "card_declined" } } },
    ada,
  );
  await killEffect("order-87110", "attempts-spent", "globex");
  const { items } = await operator.deadEffects({ tenant: "globex" });
  const letter = items.find((one) => one.key === "order-87110");
  if (letter === undefined) throw new Error("it is dead");
  await operator.decide(letter.death, { decision: "discard" }, grace);
}

/** As after a morning: some old, most of one hour. */
export async function spreadAges({ place }: World): Promise<void> {
  const ago = `case when r.key like 'inv%' then interval '3 days 4 hours'
    else right(r.key, 1)::int * interval '7 minutes 13 seconds' end`;
  await place.pool.query(
    `update latchkey.steps s set started_at = s.started_at - ${ago} + interval '412 ms',
       finished_at = s.finished_at - ${ago} + interval '409 ms'
     from latchkey.records r where r.id = s.record_id and r.state = 'unknown'`,
  );
  await place.pool.query(
    `update latchkey.records r set created_at = r.created_at - ${ago} where r.state = 'unknown'`,
  );
  await place.pool.query(
    "update latchkey.outbox o set created_at = o.created_at - interval '6 hours 12 minutes' where o.state = 'dead'",
  );
}

/** Three hours of requests, of which some were tried again, and one call that stopped answering. */
export function rememberRequests({ remember }: World): void {
  const about = { operation: "payments.charge", tenant: "acme", keyHash: "0" };
  for (let minute = 180; minute >= 1; minute--) {
    const agoMs = minute * 60_000;
    const count = 24 + ((minute * 7) % 9) - Math.floor(minute / 20);
    for (let n = 0; n < count; n++) {
      const durationMs = 180 + ((n * 37 + minute * 11) % 240);
      const tenant = n % 3 === 0 ? "globex" : "acme";
      const run = { recordId: "r", execution: "lease", attempt: 1, durationMs } as const;
      remember(agoMs, { ...about, tenant, type: "executed", ...run });
    }
    for (let n = 0; n < 3 + (minute % 3); n++) {
      const tenant = n % 2 === 0 ? "globex" : "acme";
      remember(agoMs, { ...about, tenant, type: "replayed", recordId: "r" });
    }
    if (minute <= 42)
      for (let n = 0; n < 4; n++) remember(agoMs, { ...about, type: "unknown", recordId: "r" });
    if (minute <= 42) remember(agoMs, { ...about, type: "in_progress" });
  }
}

export interface ServedWorld {
  readonly url: string;
  close(): Promise<void>;
}

export async function serve(
  { latchkey, history }: World,
  options: Partial<ConsoleOptions<Tx>> = {},
): Promise<ServedWorld> {
  const access = options.authorize === undefined ? { token } : {};
  const handler = consoleHandler({
    latchkey,
    history,
    title: "test",
    ...access,
    ...options,
  } as ConsoleOptions<Tx>);
  const { port, close } = await serveConsole(handler, { port: 0 });
  return { url: `http://127.0.0.1:${port}${options.basePath ?? ""}`, close };
}
