/** The connection on which a dispatcher receives hints is ended: it polls meanwhile, and receives again afterwards. */
import { expect, test } from "vitest";
import type { FrontendMessage } from "../support/postgres-messages.ts";
import { startProxy } from "../support/tcp-proxy.ts";
import { until } from "../support/until.ts";
import { openOutboxLab, patienceMs } from "./outbox-lab.ts";
import { openReceiver } from "./outbox-receiver.ts";
import type { EffectPlan } from "./outbox-work.ts";

const polled: EffectPlan = { effect: "polled", kind: "provider" };
const hinted: EffectPlan = { effect: "hinted", kind: "provider" };
/** Of the dispatcher that has hints alone: nothing in this file waits for so long. */
const foreverMs = 1_000_000;
const listeners = "from pg_stat_activity where query = 'listen latchkey'";
const isListen = ({ sql = "" }: FrontendMessage) => sql === "listen latchkey";

test("polls go on while no hints arrive, and hints come back", async () => {
  const receiver = await openReceiver();
  const lab = await openOutboxLab([polled, hinted], receiver);
  const { postgres, counter } = lab;
  const proxy = await startProxy({ to: { port: postgres.port } });
  const near = lab.dispatch({ plans: [polled], intervalMs: 200, databaseUrl: proxy.url(postgres.url) });
  const far = lab.dispatch({ plans: [hinted], intervalMs: foreverMs, databaseUrl: proxy.url(postgres.url) });
  await Promise.all([near.ready(patienceMs), far.ready(patienceMs)]);
  const listening = async () => (await postgres.admin(`select pid ${listeners}`)).length;
  await until(async () => (await listening()) === 2, { what: "both listen" });

  const order = ({ effect }: EffectPlan, name: string) => counter.enqueue(name, [{ effect, name }]);
  const arrives = (name: string) => until(() => receiver.effectsOf(name) === 1, { what: `${name} arrives` });
  await order(hinted, "hinted at once");
  await arrives("hinted at once");

  // Both want to listen again, and cannot.
  const holds = [proxy.holdWhen(isListen), proxy.holdWhen(isListen)];
  await postgres.admin(`select pg_terminate_backend(pid) ${listeners}`);
  await Promise.all(holds.map((hold) => hold.held()));
  expect(await listening()).toBe(0);
  await order(hinted, "not hinted");
  await order(polled, "found");
  await arrives("found");
  expect(receiver.effectsOf("not hinted"), "there was no hint").toBe(0);

  for (const hold of holds) hold.release();
  await until(async () => (await listening()) === 2, { what: "both listen again" });
  await arrives("not hinted");
  await order(hinted, "hinted again");
  await arrives("hinted again");
});
