/** Requests through the whole of Latchkey, and what holds of the answers that their callers got. */

import type { Effect } from "../../../packages/latchkey/src/effects/effect.ts";
import { isLatchkeyError } from "../../../packages/latchkey/src/errors.ts";
import type { RunResult } from "../../../packages/latchkey/src/execution/run-function.ts";
import { decodeAnswer } from "../../../packages/latchkey/src/operations/answer.ts";
import type { HandlerContext } from "../../../packages/latchkey/src/operations/attempt.ts";
import type { OperationOptions } from "../../../packages/latchkey/src/operations/operation.ts";
import { rowInsert } from "./handler-texts.ts";
import type { Actor, Session, Tx, World } from "./scenario.ts";
import type { RecordRow, Seen } from "./seen.ts";

const notAdmitted = "handler started, and not admitted";

export type Answered = RunResult<unknown> | { readonly kind: "threw"; readonly what: string };

/** One request, and the reply to its caller. */
export interface Request extends Actor {
  readonly key: string;
  readonly input: unknown;
  /** Null until then. */
  answered(): Answered | null;
  /** How often its handler got past its first statement; with `work`, past all of it. */
  passed(): number;
}

export interface Asking {
  readonly name?: string;
  readonly tenant?: string;
  readonly key?: string;
  readonly input: unknown;
  readonly options?: OperationOptions<"transaction">;
  /** Instead of one business row of this life. */
  readonly work?: (tx: Tx, life: string) => Promise<void>;
  /** Also enqueues an effect. */
  readonly enqueues?: boolean;
}

/** A request under `transaction`: one business row, and the answer says whose it is. */
export function transactionRequest(world: World, session: Session, asking: Asking): Request {
  const { tenant, scope } = world.key;
  const { name = `request ${session.index}`, key = world.key.key, input } = asking;
  let answered: Answered | null = null;
  let passed = 0;
  const latchkey = world.latchkey(session);
  const operation = latchkey.operation(scope, { isolation: world.isolation, ...asking.options });
  const effect: Effect<unknown, unknown> = latchkey.effect("mail", {
    deduplication: "provider",
    dedupeWindowMs: 3_600_000,
    execute: async () => null,
  });
  const work = async ({ tx, attempt }: HandlerContext<Tx, "transaction">) => {
    const working =
      asking.work?.(tx, attempt.id) ?? tx.query(rowInsert(world.business), [key, attempt.id, name]);
    await working.catch((error: unknown) => {
      if (isLatchkeyError(error) && error.code === "not-admitted") world.tally.count(notAdmitted);
      throw error;
    });
    passed += 1;
    if (asking.enqueues === true) attempt.enqueue(effect, { to: name });
    return { by: name, life: attempt.id };
  };
  return {
    name,
    key,
    input,
    answered: () => answered,
    passed: () => passed,
    async run() {
      answered = await latchkey
        .run(operation, { tenant: asking.tenant ?? tenant, key, input }, work)
        .catch((error: unknown): Answered => ({ kind: "threw", what: codeOf(error) }));
      world.tally.count(`answer ${answered.kind}`);
    },
  };
}

export function codeOf(error: unknown): string {
  if (!isLatchkeyError(error)) return String(error);
  return "certainty" in error ? `${error.code}, ${String(error.certainty)}` : error.code;
}

/** Answers that say, without any doubt, that this request's work has not been done. */
function saysNothingHappened(answered: Answered): boolean {
  if (answered.kind === "threw") return answered.what !== "store-unavailable, in_doubt";
  return answered.kind === "key_misuse" || answered.kind === "in_progress" || answered.kind === "replay";
}

export interface Judgement {
  readonly requests: readonly Request[];
  /** Whether something befell this interleaving. */
  readonly seen: Seen;
  /** Rows of lives before this one. */
  readonly earlier?: readonly string[];
}

/** I1, I2, I3, I8 and I9, as far as callers and tables can tell. */
export function brokenAnswers({ requests, seen, earlier = [] }: Judgement): readonly string[] {
  const broken: string[] = [];
  const keys = new Set(requests.map(({ key }) => key));
  for (const key of keys) {
    const rows = seen.business.filter((row) => row.key === key && !earlier.includes(row.life));
    const record = seen.records.find((one) => one.key === key && !earlier.includes(one.id));
    if (rows.length > 1) broken.push(`I1: ${rows.length} business rows for one life of ${key}`);
    if (rows.length === 1 && record?.id !== rows[0]?.life) broken.push("I1: a row without its record");
    if (record?.state === "completed" && rows.length !== 1) broken.push("I1: a record without its row");
    const asked = requests.filter((request) => request.key === key);
    for (const request of asked) broken.push(...brokenAnswer(request, record, rows[0]?.by));
    const effects = seen.effects.filter(({ record_id }) => record_id === record?.id);
    if (effects.length > 1) broken.push(`I9: ${effects.length} effects of one life`);
  }
  return broken;
}

function brokenAnswer(
  request: Request,
  record: RecordRow | undefined,
  rowBy: string | undefined,
): readonly string[] {
  const answered = request.answered();
  if (answered === null) return [`L1: ${request.name} was never answered`];
  const broken: string[] = [];
  if (rowBy === request.name && saysNothingHappened(answered)) {
    broken.push(`I8: ${request.name} got ${wordsOf(answered)}, and its row is there`);
  }
  if (answered.kind !== "executed" && answered.kind !== "replay") return broken;
  const replied = JSON.stringify(answered.value);
  if (record?.state !== "completed" || record.id !== answered.recordId) {
    broken.push(
      `I15: ${request.name} got ${answered.kind}, and its record is ${record?.state ?? "not there"}`,
    );
  } else if (replied !== storedValue(record)) {
    broken.push(`I3: ${request.name} got ${replied}, and ${storedValue(record)} is stored`);
  }
  const by = (answered.value as { readonly by?: string }).by;
  if (answered.kind === "executed" && by !== request.name) broken.push("I4: another's result as its own");
  return broken;
}

/** The body of a completed record's answer. */
export function storedValue({ answer }: RecordRow): string {
  return answer === null ? "" : Buffer.from(decodeAnswer(Buffer.from(answer, "hex")).body).toString("utf8");
}

export function wordsOf(answered: Answered): string {
  return answered.kind === "threw" ? `threw ${answered.what}` : answered.kind;
}

/**
 * Of requests that met no fault, at READ COMMITTED: the handler of a duplicate does not get past its first statement. At the
 * other levels it may: whoever holds the key may look it up in a snapshot that is older than its lock.
 */
export function brokenAdmission(requests: readonly Request[]): readonly string[] {
  return requests.flatMap((request) => {
    const answered = request.answered();
    const most = answered?.kind === "executed" ? 1 : 0;
    if (answered === null || request.passed() <= most) return [];
    const times = `${request.passed()} times`;
    return [
      `admission: the handler of ${request.name} passed its first statement ${times}: ${wordsOf(answered)}`,
    ];
  });
}

/** Two requests of one key whose inputs differ: at most one body is ever answered with a result. */
export function brokenMisuse(requests: readonly Request[]): readonly string[] {
  const served = requests.filter((request) => {
    const kind = request.answered()?.kind;
    return kind === "executed" || kind === "replay";
  });
  const inputs = new Set(served.map(({ input }) => JSON.stringify(input)));
  return inputs.size > 1 ? [`I2: ${inputs.size} different bodies were answered under one key`] : [];
}
