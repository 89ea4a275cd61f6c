/** `latchkey doctor`: what is wrong with the database, the role, the settings and the pool, and what to do about it. */
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
import { type EndablePool, openPool } from "./open-pool.ts";
import { databaseHelp, databaseOptions, databaseUrlOf, parse, schemaOf } from "./options.ts";
import { shown, shownJson, table } from "./text.ts";
import type { DatabaseValues } from "./with-store.ts";

const help = `Usage: latchkey doctor [options]

Looks at the database that Latchkey's tables are in, and says of each thing whether it is as it should be, and what to do where
it is not: connection, privileges, row-level security, migrations, clock, isolation, read-only defaults, the sequence behind the
outbox, vacuum, poolers. With --config also the pool's options, and leases beside how long attempts take; of a Redis store its
eviction policy and persistence. Changes nothing.

  --config <file>       the service's config, whose store is then looked at
${databaseHelp}
  --json                print it as JSON

A line each: ok, warning (it works, and costs safety or speed), FAILED (requests are refused, or a promise does not hold), or
not checked, with why.

Exit codes: 0 nothing has failed, 1 something has, 2 called wrongly.`;

export const doctor: Command = {
  summary: "look for what is wrong with the database, its settings and the pool",
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

/** Two connections tell a pooler that shares sessions among them. */
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

/** A worker's attempts are left out: how long a request has waited for one cannot be told from its record. */
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
    notChecked("settings", `Store ${store.name} tells nothing of its settings.`),
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
