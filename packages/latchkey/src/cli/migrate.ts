import { applyMigrations, renderMigrations } from "../stores/migrate-postgres.ts";
import { defaultSchema } from "../stores/postgres/statements/names.ts";
import { type Command, type CommandContext, type ExitCode, UsageError } from "./command.ts";
import { databaseOptions, databaseUrlOf, parse, schemaOf } from "./options.ts";
import { openPool } from "./with-store.ts";

const help = `Usage: latchkey migrate [options]

Creates Latchkey's tables in Postgres, or updates them to this version. Many processes may run it at once.

  --database-url <url>  the database; default: the variable DATABASE_URL, then the PG* variables of \`pg\`
  --schema <name>       the schema that holds the tables; default: ${defaultSchema}
  --sql                 print the SQL instead, to paste into migrations of Prisma, Drizzle or another tool
  --after <version>     with --sql: leave out the migrations up to this version
  --json                print the result as JSON

Exit codes: 0 done, 1 failed, 2 called wrongly.`;

export const migrate: Command = {
  summary: "create or update Latchkey's tables, or print the SQL that does",
  help,
  async run(context) {
    const options = readOptions(context.args);
    return options.sql ? printSql(context, options) : apply(context, options);
  },
};

interface Options {
  readonly databaseUrl: string | undefined;
  readonly schema: string;
  readonly sql: boolean;
  readonly after: number;
  readonly json: boolean;
}

function readOptions(args: readonly string[]): Options {
  const { values } = parse({
    args: [...args],
    options: {
      ...databaseOptions,
      sql: { type: "boolean" },
      after: { type: "string" },
      json: { type: "boolean" },
    },
  });
  const { sql = false, json = false } = values;
  if (values.after !== undefined && !sql) throw new UsageError("--after needs --sql.");
  if (json && sql) throw new UsageError("--json and --sql exclude each other.");
  const after = Number(values.after ?? "0");
  if (!Number.isSafeInteger(after) || after < 0) throw new UsageError("--after must be a version number.");
  return { databaseUrl: values["database-url"], schema: schemaOf(values.schema), sql, after, json };
}

function printSql({ print }: CommandContext, { schema, after }: Options): ExitCode {
  print(renderMigrations(schema, after).trimEnd());
  return 0;
}

async function apply(context: CommandContext, { databaseUrl, schema, json }: Options): Promise<ExitCode> {
  const pool = await openPool(context, databaseUrlOf(context, databaseUrl));
  try {
    const report = await applyMigrations(pool, schema);
    if (json) context.print(JSON.stringify(report));
    else if (report.applied.length === 0)
      context.print(`Schema "${schema}" is already at version ${report.version}.`);
    else
      context.print(
        `Schema "${schema}" is now at version ${report.version}: applied ${report.applied.join(", ")}.`,
      );
    return 0;
  } finally {
    await pool.end();
  }
}
