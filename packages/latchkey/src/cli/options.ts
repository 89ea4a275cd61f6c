/** Options that commands share. */
import { type ParseArgsConfig, parseArgs } from "node:util";
import { checkSchemaName, defaultSchema } from "../stores/postgres/statements/names.ts";
import { type CommandContext, UsageError } from "./command.ts";
import { shown } from "./text.ts";

export const databaseOptions = {
  "database-url": { type: "string" },
  schema: { type: "string" },
} as const;

/** Lines in the help of commands. */
export const databaseHelp = `\
  --database-url <url>  the database; default: the variable DATABASE_URL, then the PG* variables of \`pg\`
  --schema <name>       the schema that holds the tables; default: ${defaultSchema}`;

/** @throws {UsageError} when an option is unknown or has no value, or there are too many arguments. */
export function parse<T extends ParseArgsConfig>(config: T): ReturnType<typeof parseArgs<T>> {
  try {
    return parseArgs(config);
  } catch (error) {
    throw new UsageError(shown(error instanceof Error ? error.message : String(error)), { cause: error });
  }
}

/** @throws {UsageError} when it is not a valid schema name. */
export function schemaOf(name: string = defaultSchema): string {
  try {
    return checkSchemaName(name);
  } catch (error) {
    throw new UsageError(`--${error instanceof Error ? error.message : String(error)}.`, { cause: error });
  }
}

export function databaseUrlOf({ env }: CommandContext, option: string | undefined): string | undefined {
  return option ?? env.DATABASE_URL;
}

/** The operator or the reason. @throws {UsageError} when it is missing or blank. */
export function signed(option: "operator" | "reason", text: string | undefined): string {
  const value = text?.trim() ?? "";
  if (value !== "") return value;
  throw new UsageError(`--${option} is required: the audit row records who decided and why.`);
}

/** @throws {UsageError} unless it is a whole number between the two. */
export function wholeNumber(option: string, text: string, least: number, greatest: number): number {
  const value = /^\d+$/u.test(text) ? Number(text) : Number.NaN;
  if (value >= least && value <= greatest) return value;
  throw new UsageError(`--${option} must be a whole number from ${least} to ${greatest}.`);
}

/** Whether it may be the `keyHash` of an event. */
export function isKeyHash(text: string): boolean {
  return /^[0-9a-f]{12}$/u.test(text);
}
