/** `latchkey doctor`: finds problems of the database, role, settings and pool, and says what to do. */
import { resolve } from "node:path";
import type { Operation } from "../operations/operation.ts";
import {
  type ExamineRequest,
  type Finding,
  failed,
  type LeaseInUse,
  notChecked,
  ok,
} from "../stores/examination.ts";
import { postgresStore } from "../stores/postgres.ts";
import type { Store } from "../stores/store.ts";
import { type Command, type CommandContext, type ExitCode, UsageError } from "./command.ts";
import { loadConfig } from "./load-config.ts";
import { databaseHelp, databaseOptions, databaseUrlOf, parse, schemaOf } from "./options.ts";
import { shown, shownJson, table } from "./text.ts";
import { type DatabaseValues, type EndablePool, openPool } from "./with-store.ts";

const help = `Usage: latchkey doctor [options]

Checks the database with Latchkey's tables, and says what to do about each problem: connection, privileges, row-level security,
migrations, clock, isolation, read-only defaults, the sequence behind the outbox, vacuum, the columns of the newest records,
poolers. With --config also the pool's options, and leases compared with the duration of attempts; for a Redis store its
eviction policy and persistence. Changes nothing.

  --config <file>       check the store of the service's config
${databaseHelp}
  --json                print it as JSON

One line each: ok, warning (it works, but less safely or more slowly), FAILED (requests are refused, or a promise does not hold), or
not checked, with the reason.

Exit codes: 0 no check failed, 1 a check failed, 2 called wrongly.`;

export const doctor: Command = {
  summary: "check the database, its settings and the pool",
  help,
  async run(context) {
    const { values } = parse({
      args: [...context.args],
      options: { ...databaseOptions, config: { type: "string" }, json: { type: "boolean" } },
    });
    const checks = await (values.config === undefined
      ? ofDatabase(context, values)
      : ofConfig(context, values, values.config));
    return report(context, checks, values.json ?? false);
  },
};

/** Two connections are needed to detect a pooler that shares sessions between clients. */
const connectionsMax = 2;

async function ofDatabase(context: CommandContext, values: DatabaseValues): Promise<readonly Finding[]> {
  const schema = schemaOf(values.schema);
  const pool = await openPool(context, databaseUrlOf(context, values["database-url"]), connectionsMax);
  const store = postgresStore<EndablePool>({ pool, schema, namedStatements: false, notify: false });
  try {
    return await examine(store, { leases: null, isOfService: false });
  } finally {
    await store.close().catch(() => {});
    await pool.end();
  }
}

async function ofConfig(
  context: CommandContext,
  values: DatabaseValues,
  file: string,
): Promise<readonly Finding[]> {
  for (const option of ["database-url", "schema"] as const) {
    if (values[option] !== undefined) throw new UsageError(`--${option} and --config exclude each other.`);
  }
  const config = await loadConfig(resolve(context.cwd, file));
  try {
    const { store, operations } = config.latchkey.runtime;
    return await examine(store, { leases: leasesOf(operations), isOfService: true });
  } finally {
    await config.close?.();
  }
}

/** Without operations of workers: a record does not show how long its request waited for one. */
function leasesOf(operations: ReadonlyMap<string, Operation>): readonly LeaseInUse[] {
  return [...operations.values()]
    .filter(({ execution }) => execution === "lease")
    .map(({ name, settings }) => ({ operation: name, leaseMs: settings.leaseMs }));
}

async function examine(store: Store<unknown>, request: ExamineRequest): Promise<readonly Finding[]> {
  if (store.examine !== undefined) return store.examine(request);
  try {
    await store.verify();
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return [failed("connection", `Store ${store.name} cannot be used: ${message}.`, "See the message.")];
  }
  return [
    ok("connection", `Store ${store.name} can be used.`),
    notChecked("settings", `Store ${store.name} does not report its settings.`),
  ];
}

const marks: Readonly<Record<Finding["status"], string>> = {
  ok: "ok",
  warning: "warning",
  failed: "FAILED",
  not_checked: "not checked",
};

function report(context: CommandContext, checks: readonly Finding[], json: boolean): ExitCode {
  const healthy = checks.every(({ status }) => status !== "failed");
  if (json) context.print(shownJson({ healthy, checks }));
  else for (const line of table(checks.map(rowOf))) context.print(line);
  return healthy ? 0 : 1;
}

function rowOf({ check, status, message, remedy, place }: Finding): readonly string[] {
  const name = place === undefined ? check : `${check} (${place})`;
  return [marks[status], name, [message, ...(remedy === null ? [] : [remedy])].join(" ")].map(shown);
}
