/** The options of `latchkey settle`. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { answerOfRun } from "../execution/answer-of-run.ts";
import type { RecordName } from "../execution/find-record.ts";
import type { Answer } from "../operations/answer.ts";
import { CommandError, UsageError } from "./command.ts";
import { lifeNamedBy } from "./find-record.ts";
import { databaseOptions, parse, signed, wholeNumber } from "./options.ts";
import type { DatabaseValues } from "./with-store.ts";

/** The outcome that an operator found out. */
export type SettledOutcome =
  | { readonly event: "settle_completed" | "settle_failed"; readonly answer: Answer }
  | { readonly event: "settle_not_executed"; readonly proof: NotExecutedProof }
  | { readonly event: "settle_call"; readonly call: string; readonly result: unknown };

/** Why it is certain that it did not happen. `operator`: only the operator's word. */
export type NotExecutedProof =
  | { readonly kind: "operator" | "downstream-deduplicates" }
  | { readonly kind: "closed-downstream"; readonly downstreamKey: string };

export interface SettleOptions {
  readonly named: RecordName;
  readonly outcome: SettledOutcome;
  readonly operator: string;
  readonly reason: string;
  readonly retentionMs: number;
  readonly dryRun: boolean;
  readonly json: boolean;
  readonly database: DatabaseValues;
}

const dayMs = 24 * 60 * 60 * 1000;
const retentionMaxMs = 10 * 365 * dayMs;

/** @throws {UsageError} */
export function readSettleOptions(args: readonly string[], cwd: string): SettleOptions {
  const { values, positionals } = parse({
    args: [...args],
    allowPositionals: true,
    options: {
      ...databaseOptions,
      config: { type: "string" },
      completed: { type: "string" },
      failed: { type: "string" },
      "not-executed": { type: "boolean" },
      proof: { type: "string" },
      "downstream-key": { type: "string" },
      record: { type: "string" },
      path: { type: "string" },
      call: { type: "string" },
      result: { type: "string" },
      operator: { type: "string" },
      reason: { type: "string" },
      "retention-ms": { type: "string" },
      "dry-run": { type: "boolean" },
      json: { type: "boolean" },
    },
  });
  return { named: lifeNamedBy(positionals, values), ...settlementOptions(values, cwd) };
}

/** What does not depend on the record. */
export type SettlementOptions = Omit<SettleOptions, "named">;

interface SettlementValues extends OutcomeValues, DatabaseValues {
  readonly operator?: string | undefined;
  readonly reason?: string | undefined;
  readonly "retention-ms"?: string | undefined;
  readonly "dry-run"?: boolean | undefined;
  readonly json?: boolean | undefined;
}

/** @throws {UsageError} */
export function settlementOptions(values: SettlementValues, cwd: string): SettlementOptions {
  return {
    outcome: outcomeOf(values, cwd),
    operator: signed("operator", values.operator),
    reason: signed("reason", values.reason),
    retentionMs: wholeNumber("retention-ms", values["retention-ms"] ?? String(dayMs), 1, retentionMaxMs),
    dryRun: values["dry-run"] ?? false,
    json: values.json ?? false,
    database: values,
  };
}

interface OutcomeValues {
  readonly completed?: string | undefined;
  readonly failed?: string | undefined;
  readonly "not-executed"?: boolean | undefined;
  readonly proof?: string | undefined;
  readonly "downstream-key"?: string | undefined;
  readonly call?: string | undefined;
  readonly result?: string | undefined;
}

export function outcomeOf(values: OutcomeValues, cwd: string): SettledOutcome {
  const { completed, failed, call, result } = values;
  if ((call === undefined) !== (result === undefined)) {
    throw new UsageError("--call and --result go together.");
  }
  const outcomes: SettledOutcome[] = [];
  if (completed !== undefined) {
    outcomes.push({ event: "settle_completed", answer: answerOf("completed", completed, cwd) });
  }
  if (failed !== undefined) {
    outcomes.push({ event: "settle_failed", answer: answerOf("failed", failed, cwd) });
  }
  if (values["not-executed"]) outcomes.push({ event: "settle_not_executed", proof: proofOf(values) });
  else if (values.proof !== undefined) throw new UsageError("--proof needs --not-executed.");
  if (call !== undefined && result !== undefined) {
    outcomes.push({ event: "settle_call", call, result: jsonOf("result", result, cwd) });
  }
  const [outcome, ...more] = outcomes;
  if (outcome === undefined || more.length > 0) {
    throw new UsageError("Name the outcome: exactly one of --completed, --failed, --not-executed, --call.");
  }
  return outcome;
}

const closed = "closed-downstream";

function proofOf({ proof = "operator", "downstream-key": key }: OutcomeValues): NotExecutedProof {
  if (proof !== closed && key !== undefined) {
    throw new UsageError(`--downstream-key needs --proof ${closed}.`);
  }
  switch (proof) {
    case "operator":
    case "downstream-deduplicates":
      return { kind: proof };
    case closed:
      if (key) return { kind: proof, downstreamKey: key };
      throw new UsageError(
        `--proof ${closed} needs --downstream-key, the key of the closed call: another call may be in doubt by now.`,
      );
    default:
      throw new UsageError(`--proof must be operator, ${closed} or downstream-deduplicates.`);
  }
}

/** JSON, or `@` and the name of a file that contains it. */
export function jsonOf(option: string, text: string, cwd: string): unknown {
  const json = text.startsWith("@") ? contentOf(resolve(cwd, text.slice(1))) : text;
  try {
    return JSON.parse(json);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new UsageError(`--${option} is not JSON: ${why}`, { cause: error });
  }
}

function contentOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw new CommandError(error instanceof Error ? error.message : String(error), { cause: error });
  }
}

const answerFields = ["status", "headers", "body"];

function answerOf(option: string, text: string, cwd: string): Answer {
  const value = jsonOf(option, text, cwd);
  const refuse = (why: string): never => {
    throw new UsageError(`--${option} ${why}; it has the form {"status":201,"headers":{},"body":{}}.`);
  };
  if (!isObject(value)) return refuse("must be an object");
  for (const field of Object.keys(value)) {
    if (!answerFields.includes(field)) refuse(`has an unknown field ${JSON.stringify(field)}`);
  }
  const { status, headers = {} } = value;
  if (typeof status !== "number") return refuse("needs a status");
  if (!isObject(headers) || !Object.values(headers).every(isHeaderValue)) {
    return refuse("has headers that are not strings or lists of strings");
  }
  try {
    return answerOfRun(value);
  } catch (error) {
    return refuse(`is refused: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function isHeaderValue(value: unknown): boolean {
  return [value].flat().every((line) => typeof line === "string");
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
