/** Commands with `--console`: a running process executes them, through its console. */
import type { Hastened } from "../operator/hasten.ts";
import type { Inspected } from "../operator/inspect.ts";
import type { DecidedDead } from "../operator/operator.ts";
import type { Page } from "../operator/queues.ts";
import type { RecordReport } from "../operator/report.ts";
import type { Settled } from "../operator/settle.ts";
import type { AuditLogView, DeadEffectView, MessageView, RecordView } from "../operator/views.ts";
import { systemPorts } from "../ports.ts";
import { durationOf } from "./bulk.ts";
import { commandChoices, placeWords } from "./choice-commands.ts";
import { type CommandContext, CommandError, type ExitCode, refusal, UsageError } from "./command.ts";
import { type ConsoleClient, openConsole } from "./console-client.ts";
import { lifeNamedBy, namedBy } from "./find-record.ts";
import { messageLines, reportLines } from "./inspect.ts";
import { deadEffectLines } from "./inspect-lines.ts";
import { auditLogLines, deadLines, deadMessageLines, recordLines } from "./list.ts";
import { parse, signed, wholeNumber } from "./options.ts";
import { limitDefault } from "./pages.ts";
import { jsonOf, outcomeOf } from "./settle-options.ts";
import { shown, shownJson } from "./text.ts";

type Run = (context: CommandContext) => Promise<ExitCode>;

/** By the names of the commands. The other commands need the database itself. */
export const overConsole: ReadonlyMap<string, Run> = new Map<string, Run>([
  ["inspect", inspect],
  ["list", list],
  ["settle", settle],
  ["retry", (context) => hasten(context, "retry")],
  ["forget", (context) => hasten(context, "forget")],
  ["redrive", (context) => decide(context, "redrive")],
  ["discard", (context) => decide(context, "discard")],
]);

const text = { type: "string" } as const;
const flag = { type: "boolean" } as const;
const common = { console: text, json: flag } as const;
const deciding = { ...common, operator: text, reason: text } as const;

function inspectNamed(client: ConsoleClient, positionals: readonly string[]): Promise<Inspected> {
  const [tenant, operation, key] = positionals;
  namedOrId(positionals);
  return client.get("inspect", positionals.length === 1 ? { name: tenant } : { tenant, operation, key });
}

/** @throws {UsageError} */
function namedOrId(positionals: readonly string[]): void {
  const isDeadName = positionals.length === 1 && /^[0-9a-f-]{36}(?:@\d+)?$/u.test(positionals[0] ?? "");
  if (!isDeadName) namedBy(positionals);
}

async function inspect(context: CommandContext): Promise<ExitCode> {
  const { values, positionals } = parse({ args: [...context.args], allowPositionals: true, options: common });
  const client = openConsole(context, values.console);
  const found = await inspectNamed(client, positionals);
  const place = placeWords({ console: client.address });
  const print = (value: unknown, lines: readonly string[]) => {
    if (values.json) context.print(shownJson(value));
    else for (const line of lines) context.print(shown(line));
    return 0 as const;
  };
  switch (found.kind) {
    case "record":
      return print(found.report, reportLines(found.report, place));
    case "effect": {
      const choices = commandChoices(found.choices, found.effect.death, place);
      return print({ effect: found.effect, choices }, deadEffectLines(found.effect, choices));
    }
    case "message": {
      const { message, payload } = found;
      const choices = commandChoices(found.choices, message.id, place);
      return print({ ...message, payload, choices }, messageLines({ ...message, payload, choices }, true));
    }
    default:
      throw notOne(found, positionals);
  }
}

function notOne(found: Inspected, names: readonly string[]): CommandError {
  if (found.kind === "ambiguous") {
    return refusal(`Two records have this name (${found.recordIds.join(" and ")}): use the id.`);
  }
  const name = shown(names.join(" "));
  const why =
    "it never arrived, was released because nothing happened, was forgotten, or its transaction is still running";
  return new CommandError(`Nothing has the name ${name}: ${why}.`, { exitCode: 3 });
}

const listing = {
  ...common,
  state: text,
  dead: flag,
  messages: flag,
  audit: flag,
  effect: text,
  tenant: text,
  operation: text,
  "error-code": text,
  "older-than": text,
  limit: text,
  after: text,
} as const;

async function list(context: CommandContext): Promise<ExitCode> {
  const { values } = parse({ args: [...context.args], options: listing });
  const client = openConsole(context, values.console);
  const limit = wholeNumber("limit", values.limit ?? String(limitDefault), 1, 200);
  const shownValues = { ...values, console: client.address };
  const page = { limit: String(limit), from: values.after };
  const filter = { ...page, ...filterOf(values) };
  const print = <View>(name: string, { items, next }: Page<View>, lines: readonly string[]) => {
    if (values.json) context.print(shownJson({ [name]: items, next }));
    else for (const line of lines) context.print(line);
    return 0 as const;
  };
  if (values.audit) {
    const found = await client.get<Page<AuditLogView>>("audit", { ...page, tenant: values.tenant });
    return print("entries", found, auditLogLines(shownValues, limit, found.items, found.next));
  }
  if (values.dead && values.messages) {
    const found = await client.get<Page<MessageView>>("dead", { kind: "message", ...filter });
    return print("messages", found, deadMessageLines(shownValues, limit, found.items, found.next, true));
  }
  if (values.dead) {
    const found = await client.get<Page<DeadEffectView>>("dead", { kind: "effect", ...filter });
    return print("effects", found, deadLines(shownValues, limit, found.items, found.next));
  }
  const { state = "unknown" } = values;
  const found = await client.get<Page<RecordView>>("records", { state, ...filter });
  const lines = recordLines(
    { ...shownValues, state: state as RecordView["state"], limit },
    found.items,
    found.next,
  );
  return print("records", found, lines);
}

function filterOf(values: {
  readonly tenant?: string;
  readonly operation?: string;
  readonly effect?: string;
  readonly "error-code"?: string;
  readonly "older-than"?: string;
}): Readonly<Record<string, string | undefined>> {
  const { tenant, operation, effect, "error-code": errorCode, "older-than": olderThan } = values;
  const notAfter =
    olderThan === undefined
      ? undefined
      : new Date(systemPorts.clock.wallMs() - durationOf("older-than", olderThan)).toISOString();
  return { tenant, operation, effect, errorCode, notAfter };
}

const settling = {
  ...deciding,
  completed: text,
  failed: text,
  "not-executed": flag,
  proof: text,
  "downstream-key": text,
  record: text,
  call: text,
  result: text,
} as const;

async function settle(context: CommandContext): Promise<ExitCode> {
  const { values, positionals } = parse({
    args: [...context.args],
    allowPositionals: true,
    options: settling,
  });
  // Checked before any request, as without a console.
  const { event } = outcomeOf(values, context.cwd);
  const by = signedBy(values);
  const client = openConsole(context, values.console);
  const report = await lifeOf(client, positionals, values);
  const settled = await client.post<Settled>("settle", by.operator, {
    recordId: report.id,
    attempt: report.attempt,
    reason: by.reason,
    ...outcomeFields(event, values, report, context.cwd),
  });
  if (settled.kind === "refused") throw refusal(`${settled.title} ${settled.detail}`);
  if (values.json) {
    context.print(shownJson({ settled: settled.audit, record: settled.record }));
    return 0;
  }
  const { audit } = settled;
  if (audit !== null) {
    context.print(`Settled: ${audit.from} → ${audit.to} (${audit.event}), audit row ${audit.id}.`);
  }
  for (const line of settled.next) context.print(shown(line));
  return 0;
}

function outcomeFields(
  event: ReturnType<typeof outcomeOf>["event"],
  values: Readonly<Record<string, unknown>> & { readonly [name: string]: unknown },
  report: RecordReport,
  cwd: string,
): object {
  const given = (name: string) => String(values[name] ?? "");
  const inDoubt = report.steps.find(({ state }) => state === "started")?.call?.downstreamKey ?? null;
  switch (event) {
    case "settle_completed":
      return { outcome: "completed", answer: jsonOf("completed", given("completed"), cwd) };
    case "settle_failed":
      return { outcome: "failed", answer: jsonOf("failed", given("failed"), cwd) };
    case "settle_not_executed": {
      const { proof = "operator", "downstream-key": named = inDoubt } = values;
      return { outcome: "not-executed", proof, downstreamKey: named };
    }
    case "settle_call":
      return {
        outcome: "call",
        call: values.call,
        downstreamKey: inDoubt,
        result: jsonOf("result", given("result"), cwd),
      };
    default:
      return event satisfies never;
  }
}

async function hasten(context: CommandContext, event: "retry" | "forget"): Promise<ExitCode> {
  const { values, positionals } = parse({
    args: [...context.args],
    allowPositionals: true,
    options: { ...deciding, record: text, yes: flag, "may-run-again": flag },
  });
  const by = signedBy(values);
  if (event === "forget" && !values.yes) throw new UsageError("Use --yes to forget it.");
  const client = openConsole(context, values.console);
  const { id, attempt } = await lifeOf(client, positionals, values);
  const done = await client.post<Hastened>(event, by.operator, {
    recordId: id,
    attempt,
    reason: by.reason,
    ...(event === "forget" && { mayRunAgain: values["may-run-again"] ?? false }),
  });
  if (done.kind === "refused") throw refusal(`Not done. ${done.title} ${done.detail}`);
  const { audit, record } = done;
  if (values.json) context.print(shownJson({ event, record, audit }));
  else {
    const what = event === "retry" ? "due now" : "forgotten: its key may run as new";
    context.print(shown(`Record ${record.id} (${record.state}) is ${what}. Audit row ${audit}.`));
  }
  return 0;
}

async function decide(context: CommandContext, decision: "redrive" | "discard"): Promise<ExitCode> {
  const { values, positionals } = parse({
    args: [...context.args],
    allowPositionals: true,
    options: { ...deciding, "never-happened": flag },
  });
  const by = signedBy(values);
  if (positionals.length === 0) throw new UsageError("Name an effect or message by its id.");
  const client = openConsole(context, values.console);
  const doubt = values["never-happened"] ? "cleared" : "kept";
  const decided: (DecidedDead & { readonly id: string })[] = [];
  for (const id of positionals) {
    const fields = { death: id, decision, reason: by.reason, ...(decision === "redrive" && { doubt }) };
    decided.push({ id, ...(await client.post<DecidedDead>("decide", by.operator, fields)) });
  }
  if (values.json) context.print(shownJson({ event: decision, decided }));
  for (const one of values.json ? [] : decided) {
    const what = decision === "redrive" ? "due now" : "given up";
    if (one.kind === "decided") context.print(shown(`${one.id}: dead → ${what}, audit row ${one.audit}.`));
    else context.complain(shown(`${one.id}: ${one.title} ${one.detail}`));
  }
  return decided.every(({ kind }) => kind === "decided") ? 0 : 4;
}

function signedBy(values: { readonly operator?: string; readonly reason?: string }) {
  return { operator: signed("operator", values.operator), reason: signed("reason", values.reason) };
}

/**
 * The life that the operator looked at.
 *
 * @throws {CommandError} when there is none, or its key now has another life.
 */
async function lifeOf(
  client: ConsoleClient,
  positionals: readonly string[],
  values: { readonly record?: string; readonly "downstream-key"?: string },
): Promise<RecordReport> {
  const { recordId } = lifeNamedBy(positionals, values);
  const found = await inspectNamed(client, positionals);
  if (found.kind !== "record") throw notOne(found, positionals);
  const { report } = found;
  if (recordId === undefined || recordId === report.id) return report;
  throw refusal(`The key now has another life, record ${report.id}. Nothing was changed.`);
}
