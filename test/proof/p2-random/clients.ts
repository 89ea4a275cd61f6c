/** Clients: what they ask for, what replies they get, and whether those may be. */

import { isLatchkeyError, StoreError } from "../../../packages/latchkey/src/errors.ts";
import { submit as submitShared } from "../../../packages/latchkey/src/execution/submit.ts";
import type { Result, Submission, Work } from "../../../packages/latchkey/src/operations/attempt.ts";
import type { OwnedOperation } from "../../../packages/latchkey/src/operations/owned-operation.ts";
import type { MemoryTransaction } from "../../../packages/latchkey/src/stores/memory.ts";
import { type Asked, type Request, type RequestResult, WorldError } from "./asked.ts";
import { isDirect, type StepsInput } from "./config.ts";
import { leaseWork, transactionWork } from "./direct-work.ts";
import { answerText, keyTextOf } from "./life-log.ts";
import type { Process } from "./process.ts";
import type { World } from "./world.ts";

/** No limit of an attempt or a transaction is over by then. */
const patienceMs = 1_000;

export function submit(world: World, process: Process, request: Request): Asked {
  const { plan, key } = request;
  const asked: Asked = {
    ...request,
    record: { tenant: key.tenant, scope: plan.keyScope === "tenant" ? "*" : plan.name, key: key.key },
    begun: world.steps,
    begunMs: world.clock.nowMs,
    ended: null,
    endedMs: 0,
    reply: null,
    nonces: [],
  };
  const running = execute(world, process, asked).then(
    (result) => receive(world, process, asked, result),
    (error: unknown) => receive(world, process, asked, { kind: "threw", error }),
  );
  world.track(process, `${plan.shape} ${plan.name} ${key.tenant} ${key.key} body ${request.digest}`, running);
  return asked;
}

function execute(world: World, process: Process, asked: Asked): Promise<Result> {
  const { latchkey, operations } = process;
  const { plan, digest, principal, record } = asked;
  const operation = operations.get(plan.name);
  if (operation === undefined) throw new TypeError(`There is no operation ${plan.name}`);
  const fingerprint = { version: 1, digest: new Uint8Array([digest]) };
  const submission: Submission = { key: record, fingerprint, principal };
  if (!isDirect(plan)) {
    const owned = operation as unknown as OwnedOperation<"lease", StepsInput>;
    return latchkey.executeOwned(owned, submission, { digest });
  }
  const work =
    plan.execution === "transaction"
      ? transactionWork(world, process, asked)
      : leaseWork(world, process, asked);
  const { batchSize } = plan;
  if (batchSize === null || !world.sharesTransactions)
    return latchkey.execute(operation, submission, work as Work<MemoryTransaction>);
  const batches = process.batches(operation, batchSize);
  return submitShared(latchkey.runtime, operation, submission, work as Work<MemoryTransaction>, batches);
}

function receive(world: World, process: Process, asked: Asked, reply: RequestResult): void {
  // A reply of a dead process does not arrive.
  if (!process.alive) return;
  const { report } = world;
  asked.reply = reply;
  asked.ended = world.steps;
  asked.endedMs = world.clock.nowMs;
  const what = reply.kind === "threw" ? `threw ${nameOf(reply.error)}` : reply.kind;
  report.trace.mixText(what);
  report.trace.say(() => `${process.name} tells ${asked.plan.name} ${asked.key.key}: ${what}`);
  report.reach(`reply: ${reply.kind === "key_misuse" ? `key misuse: ${reply.because}` : what}`);
  switch (reply.kind) {
    case "executed":
      if (reply.stored) checkReplies(world, asked, reply.recordId, answerText(reply.answer), "I4");
      break;
    case "replay":
      checkReplies(world, asked, reply.recordId, answerText(reply.answer), "I3");
      break;
    case "threw":
      checkThrown(world, asked, reply.error);
      break;
    case "in_progress":
      checkRuns(world, process, asked, reply.recordId);
      break;
    case "commit_in_doubt":
      checkReason(world, asked, what);
      break;
    default:
  }
}

function checkReplies(world: World, asked: Asked, id: string, text: string, invariant: string): void {
  const { report, lives } = world;
  const life = lives.all.get(id);
  if (life === undefined) {
    report.fail("I8", `got an answer of ${id}, of which there is no record`);
    return;
  }
  if (life.answer !== text) {
    report.fail(invariant, `got ${text} of ${id}, whose record says ${life.answer ?? life.record.state}`);
  }
  const { record, plan } = life;
  const { tenant, scope, key } = asked.record;
  if (record.tenant !== tenant) report.fail("I11", `${tenant} got the answer of ${record.tenant}`);
  const own =
    record.scope === scope &&
    record.key === key &&
    plan.name === asked.plan.name &&
    record.principal === asked.principal &&
    record.fingerprint.digest[0] === asked.digest;
  if (!own) report.fail("I2", `got the answer of another request: ${id}`);
}

function nameOf(error: unknown): string {
  if (error instanceof StoreError) return `${error.code} ${error.certainty}`;
  if (isLatchkeyError(error)) return error.code;
  return error instanceof Error ? error.name : String(error);
}

/**
 * A request that gets the reply that the key runs must not be the only one that could run it, while all that has happened to it is one fault:
 * an admission whose reply was lost is its own, unless it has given its token back, under which nothing may start any more.
 */
function checkRuns(world: World, process: Process, asked: Asked, id: string | null): void {
  const { report, lives } = world;
  const life = lives.of(asked.record);
  if (life === null || life.id !== id || life.owner !== process || report.faultsCount > 1) return;
  const isAlone = !world.asked.some((other) => other !== asked && overlaps(other, asked));
  const hasRun = asked.nonces.length > 0 || life.steps.length > 0;
  const { createdAt, fence } = life.record;
  if (!isAlone || hasRun || createdAt < asked.begunMs || fence.attempt > 1) return;
  if (lives.isGivenBack(fence.token)) return;
  report.fail("I14", `${asked.plan.shape} got the reply that ${id} runs, which is its own, and does not run`);
}

function overlaps(other: Asked, { record, begun }: Asked): boolean {
  return keyTextOf(other.record) === keyTextOf(record) && (other.ended === null || other.ended >= begun);
}

/** Nobody may meet a programmer's mistake. */
function checkThrown(world: World, asked: Asked, error: unknown): void {
  const known = error instanceof WorldError || isLatchkeyError(error);
  if (!known) world.report.fail("L1", `${asked.plan.shape} threw ${String(error)}`);
  if (error instanceof StoreError) checkReason(world, asked, nameOf(error));
}

/** Nobody is refused, or left in doubt, for no reason: a fault, or time that has passed. */
function checkReason({ report, clock }: World, { plan, begunMs }: Asked, what: string): void {
  if (report.faults.size > 0 || clock.nowMs - begunMs >= patienceMs) return;
  report.fail("L1", `${plan.shape} got ${what}, and nothing has gone wrong`);
}

/** Whether its reply says that nothing of it is committed. */
export function gotNothing({ plan, reply }: Asked): boolean {
  if (reply === null || plan.execution !== "transaction") return false;
  if (reply.kind === "executed") return !reply.stored;
  if (reply.kind !== "threw") return false;
  return !(reply.error instanceof StoreError) || reply.error.certainty !== "in_doubt";
}
