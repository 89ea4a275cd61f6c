/** What holds for every neighbour: the first answer is that of the app without Latchkey, and the work is done once. */
import { expect } from "vitest";
import type { MemoryTransaction } from "../../packages/latchkey/src/stores/memory.ts";
import type { Store } from "../../packages/latchkey/src/stores/store.ts";
import {
  type HttpAnswer,
  type HttpCall,
  newKey,
} from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { httpService } from "../support/http-service.ts";
import { until } from "../support/until.ts";
import type { Served } from "./served.ts";
import type { Trait } from "./table.ts";
import { type AnswerKind, type Execution, makeWorld, type World } from "./world.ts";

export interface Case {
  /** Starts the app that has the neighbour. */
  readonly start: (world: World) => Promise<Served>;
  readonly neighbour: Trait;
  readonly execution: Execution;
  readonly answerKind: AnswerKind;
}

/** A connection's own business, different on each connection or at each moment. */
const ofConnection = ["connection", "content-length", "date", "keep-alive", "transfer-encoding"];

export async function judge(subject: Case): Promise<void> {
  const { start, neighbour, execution, answerKind } = subject;
  const plain = await answerWithoutLatchkey(subject);
  const service = httpService();
  const world = makeWorld({ service, execution, answerKind });
  const served = await start(world);
  const statuses: string[] = [];
  const asked: Served = { ...served, call: (call) => noting(served.call(call), statuses) };
  try {
    await judgeAnswers(subject, plain, asked, world);
    await judgeConcurrency(subject, asked, world);
    expect(service.reported()).toEqual([]);
    if (neighbour.logs === true) await judgeLog(world, statuses);
  } finally {
    // Resolves when no connection is left.
    await served.close();
  }
  expect(await leftOpen(service.memory)).toEqual([]);
}

async function answerWithoutLatchkey(subject: Case): Promise<HttpAnswer> {
  const { start, neighbour, execution, answerKind } = subject;
  const world = makeWorld({ service: null, execution, answerKind });
  const served = await start(world);
  try {
    const answer = await served.call({ ...neighbour.request, key: newKey() });
    expect(answer.status, answer.body.toString()).toBeLessThan(300);
    expect(world.runs()).toBe(1);
    return answer;
  } finally {
    await served.close();
  }
}

async function judgeAnswers({ neighbour }: Case, plain: HttpAnswer, served: Served, world: World) {
  const { request = {}, otherRequest = { body: '{"amount":2}' }, random = [] } = neighbour;
  const { ofEachRequest = [] } = neighbour;
  const leftOut = [...(neighbour.leftOut ?? []), "x-order"];
  const call = { ...request, key: newKey() };
  const first = await served.call(call);
  expect(show(first, random)).toEqual(show(plain, random));
  const own = [...random, ...ofEachRequest];
  const expected = show(first, own, leftOut);
  for (let round = 0; round < 2; round++) {
    const replay = await served.call(call);
    expect(replay.header("idempotent-replayed"), replay.body.toString()).toBe("true");
    expect(show(replay, own, [...leftOut, "idempotent-replayed"])).toEqual(expected);
  }
  expect(world.runs()).toBe(1);
  if (otherRequest !== null) {
    const misuse = await served.call({ ...request, ...otherRequest, key: call.key });
    expect([misuse.status, misuse.header("content-type")]).toEqual([422, "application/problem+json"]);
    expect(world.runs()).toBe(1);
  }
  const otherTenant = await served.call({ ...call, tenant: "tenant-2" });
  expect([otherTenant.status, otherTenant.header("idempotent-replayed")]).toEqual([first.status, null]);
  expect(world.runs()).toBe(2);
}

/** A duplicate that comes while the handler is at work is refused, and replayed afterwards. */
async function judgeConcurrency({ neighbour }: Case, served: Served, world: World): Promise<void> {
  const call: HttpCall = { ...neighbour.request, key: newKey() };
  const before = world.runs();
  const release = world.hold();
  const running = served.call(call);
  await until(() => world.runs() === before + 1, { what: "the handler has begun" });
  const duplicate = await served.call(call).finally(release);
  expect([duplicate.status, duplicate.header("content-type")]).toEqual([409, "application/problem+json"]);
  const first = await running;
  const replay = await served.call(call);
  expect([replay.status, replay.header("idempotent-replayed")]).toEqual([first.status, "true"]);
  expect(replay.body.equals(first.body)).toBe(true);
  expect(world.runs()).toBe(before + 1);
}

async function noting(answer: Promise<HttpAnswer>, statuses: string[]): Promise<HttpAnswer> {
  statuses.push(String((await answer).status));
  return answer;
}

/** A line may be written a moment after its answer has arrived. */
async function judgeLog({ logged }: World, statuses: readonly string[]): Promise<void> {
  await until(() => logged.length >= statuses.length, { what: "each answer has a line in the log" });
  expect(logged.toSorted()).toEqual(statuses.toSorted());
}

/** An answer to compare: `own` are headers of which the names alone count, `without` those that are not looked at. */
function show(answer: HttpAnswer, own: readonly string[], without: readonly string[] = []): object {
  const lines = answer.lines
    .filter(([name]) => !ofConnection.includes(name) && !without.includes(name))
    .map(([name, value]) => (own.includes(name) ? `${name}: …` : `${name}: ${value}`));
  const { status, statusText, body } = answer;
  return { status, statusText, lines: lines.sort(), body: body.toString("latin1") };
}

async function leftOpen(store: Store<MemoryTransaction>): Promise<readonly object[]> {
  const states = ["in_progress", "unknown", "retryable"] as const;
  const filter = { tenant: null, operation: null, limit: 10, after: null };
  const pages = await Promise.all(states.map((state) => store.settlement.list({ ...filter, state })));
  return pages.flat();
}
