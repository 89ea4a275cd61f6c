/** Checks a Postgres server, the role and the settings, as far as that needs only statements. */
import { isLatchkeyError } from "../../../errors.ts";
import type { Clock } from "../../../ports.ts";
import type { SqlRow } from "../../../sql/transaction.ts";
import {
  clockFinding,
  type ExamineRequest,
  type Finding,
  failed,
  notChecked,
  ok,
  warning,
} from "../../examination.ts";
import type { PostgresExecutor } from "../executor.ts";
import type { Positions } from "../outbox/positions.ts";
import { schemaVersion } from "../settings.ts";
import { booleanOf, momentOf, nullableText, numberOf, onlyRow, textOf } from "../statements/rows.ts";
import type { SqlNames } from "../statements/sql-parts.ts";
import { examineStatements } from "./examine-statements.ts";

export interface ExaminedDatabase {
  readonly schema: string;
  readonly names: SqlNames;
  readonly executor: PostgresExecutor;
  readonly clock: Clock;
  readonly positions: Positions;
}

interface ExamineParts extends ExaminedDatabase {
  readonly statements: ReturnType<typeof examineStatements>;
}

export async function examinePostgres(
  database: ExaminedDatabase,
  { leases }: ExamineRequest,
): Promise<readonly Finding[]> {
  const statements = examineStatements(database.names);
  const parts: ExamineParts = { ...database, statements };
  const { executor } = parts;
  let server: SqlRow;
  try {
    server = onlyRow(await executor.read(statements.server.bind({})));
  } catch (error) {
    return [failed("connection", `The database could not be queried: ${why(error)}.`, unreachableRemedy)];
  }
  const found: Finding[] = [connected(server), isolation(server), readOnly(server)];
  const add = async (check: string, look: () => Promise<Finding | readonly Finding[]>) => {
    const findings = await look().catch((error) =>
      notChecked(check, `The query of this check failed: ${why(error)}.`),
    );
    found.push(...[findings].flat());
  };
  await add("row-level-security", () => rowLevelSecurity(parts));
  // The operators in the statements below would not be Postgres's own.
  if (found.some(({ check, status }) => check === "search-path" && status === "failed")) return found;
  await add("privileges", () => privileges(parts));
  await add("migrations", () => migrations(parts));
  await add("clock", () => clockDifference(parts));
  await add("sequence", () => sequence(parts));
  await add("vacuum", () => vacuum(parts));
  await add("records", () => shapes(parts));
  await add("leases", () => leaseFindings(parts, leases));
  return found;
}

const unreachableRemedy =
  "Check the address, the password, pg_hba.conf and whether the server has connections left.";

/** The messages of an error and its causes, on one line and without the full stop. */
export function why(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const words = [error.message || error.name];
  if (
    isLatchkeyError(error) &&
    error.cause instanceof Error &&
    !error.message.includes(error.cause.message)
  ) {
    words.push(error.cause.message);
  }
  return words
    .join(": ")
    .replaceAll(/\s*\n\s*/gu, " ")
    .replace(/\.$/u, "");
}

function connected(row: SqlRow): Finding {
  const [version, database, role] = ["version", "database", "role_name"].map((name) => textOf(row, name));
  return ok("connection", `PostgreSQL ${version}, database ${database}, role ${role}.`);
}

function isolation(row: SqlRow): Finding {
  const level = textOf(row, "isolation");
  if (level === "read committed") return ok("isolation", "default_transaction_isolation is read committed.");
  const message = `default_transaction_isolation is ${level}: handlers run at this level, and run again after conflicts with other transactions.`;
  return warning(
    "isolation",
    message,
    "If this is not intended, reset it for the role or the database, and set `isolation` on the operations that need it.",
  );
}

function readOnly(row: SqlRow): Finding {
  if (booleanOf(row, "standby")) {
    return failed(
      "read-only",
      "The server is a standby: every request whose handler would run is refused with 503.",
      "Connect to the primary, for example by target_session_attrs=read-write.",
    );
  }
  if (textOf(row, "read_only") === "off") return ok("read-only", "default_transaction_read_only is off.");
  return failed(
    "read-only",
    "default_transaction_read_only is on: every request whose handler would run is refused with 503.",
    "Reset it for the role, the database or the server: alter role … reset default_transaction_read_only.",
  );
}

async function privileges({ executor, statements, schema }: ExamineParts): Promise<Finding> {
  const row = onlyRow(await executor.read(statements.rights.bind({ schema })));
  const role = textOf(row, "role_name");
  if (booleanOf(row, "closed")) {
    return failed(
      "privileges",
      `Role ${role} may not use schema ${schema}.`,
      `Run as its owner: grant usage on schema "${schema}" to "${role}".`,
    );
  }
  const lacking = nullableText(row, "lacking");
  if (lacking === null) return ok("privileges", `Role ${role} has what it needs in schema ${schema}.`);
  return failed(
    "privileges",
    `Role ${role} lacks ${lacking} in schema ${schema}.`,
    `Run as its owner: grant select, insert, update, delete on all tables in schema "${schema}" to "${role}".`,
  );
}

async function rowLevelSecurity({ executor, statements, schema }: ExamineParts): Promise<readonly Finding[]> {
  const row = onlyRow(await executor.read(statements.suitability.bind({ schema })));
  const [hidden, hostile] = [nullableText(row, "hidden"), nullableText(row, "hostile")];
  const security =
    hidden === null
      ? ok("row-level-security", `No policy hides rows of schema ${schema} from this role.`)
      : failed(
          "row-level-security",
          `Row-level security hides rows of schema ${schema} (${hidden}) from role ${textOf(row, "role_name")}: every request is refused.`,
          "Give it a policy `for all using (true)`, disable row-level security there, or use the tables' owner.",
        );
  const path =
    hostile === null
      ? ok("search-path", "Postgres's own operators and types are found first.")
      : failed(
          "search-path",
          `The search_path lists ${hostile} before pg_catalog, which contains operators or types with the same names as Postgres's own: every request is refused.`,
          "Remove pg_catalog from the search_path, so that Postgres searches it first.",
        );
  return [security, path];
}

async function migrations({ executor, statements, schema }: ExamineParts): Promise<Finding> {
  const run = "Run `latchkey migrate`, or paste what `latchkey migrate --sql` prints.";
  const rights = onlyRow(await executor.read(statements.rights.bind({ schema })));
  if (booleanOf(rights, "closed")) return notChecked("migrations", `This role may not use schema ${schema}.`);
  const missing = nullableText(rights, "missing");
  const [row] = missing?.includes("settings") ? [] : await executor.read(statements.version.bind({}));
  const version = row === undefined ? null : textOf(row, "value");
  if (version !== null && Number(version) > schemaVersion) {
    const message = `Schema ${schema} has version ${version}, and this package needs version ${schemaVersion}.`;
    return failed("migrations", message, "Use the version of the package that migrated it, or a newer one.");
  }
  if (missing !== null) return failed("migrations", `Schema ${schema} lacks tables: ${missing}.`, run);
  if (version === String(schemaVersion))
    return ok("migrations", `Schema ${schema} is at version ${version}.`);
  return failed(
    "migrations",
    `Schema ${schema} has version ${version ?? "(none)"}, and this package needs version ${schemaVersion}.`,
    run,
  );
}

async function clockDifference({ executor, statements, clock }: ExamineParts): Promise<Finding> {
  const askedAt = clock.wallMs();
  const row = onlyRow(await executor.read(statements.clock.bind({})));
  return clockFinding(momentOf(row, "now"), askedAt, clock.wallMs());
}

async function sequence({ positions }: ExamineParts): Promise<Finding> {
  const { isBehind, isSettable, highest } = await positions.look();
  if (isBehind === null) {
    return notChecked("sequence", "This role may not read the sequence behind outbox.position.");
  }
  if (!isBehind) return ok("sequence", "The sequence behind outbox.position is ahead of its rows.");
  const message =
    "The sequence behind outbox.position is behind its rows, as after a move by logical replication: ordered effects would overtake each other.";
  const also = isSettable ? " (A service whose role may set it does so when it starts.)" : "";
  return failed("sequence", message, `Run: ${positions.remedy(highest)}${also}`);
}

/** Fewer dead rows do not matter, whatever their share. */
const deadRowsMin = 10_000;

async function vacuum({ executor, statements, names: sql, schema }: ExamineParts): Promise<Finding> {
  // A database without processes beside the session has no autovacuum, either.
  const hasAutovacuum = sql.serverLimits;
  const rows = await executor.read(statements.vacuum.bind({ schema }));
  const [first] = rows;
  if (first === undefined) return notChecked("vacuum", "There are no tables yet.");
  const names = (of: readonly SqlRow[]) => of.map((row) => textOf(row, "name")).join(", ");
  const dead = rows.filter((row) => numberOf(row, "dead") > Math.max(deadRowsMin, numberOf(row, "live")));
  const vacuumAll = `vacuum ${dead.map((row) => `"${schema}".${textOf(row, "name")}`).join(", ")}`;
  if (hasAutovacuum) {
    const off = rows.filter((row) => booleanOf(row, "off"));
    if (off.length > 0) {
      const reset = off.map(
        (row) => `alter table "${schema}".${textOf(row, "name")} reset (autovacuum_enabled)`,
      );
      const message = `Autovacuum is off for ${names(off)}: dead rows accumulate, and look-ups become slower and slower.`;
      return failed("vacuum", message, `Run: ${reset.join("; ")}`);
    }
    for (const name of ["autovacuum", "track_counts"]) {
      if (textOf(first, name) === "on") continue;
      const message = `${name} is off, so nothing is vacuumed automatically: dead rows accumulate, and look-ups become slower and slower.`;
      return failed("vacuum", message, `Set ${name} to on in postgresql.conf.`);
    }
  }
  if (dead.length > 0) {
    const counts = dead.map((row) => `${textOf(row, "name")} ${numberOf(row, "dead")}`).join(", ");
    const remedy = hasAutovacuum
      ? `End transactions that stay open for hours (pg_stat_activity.xact_start), then run: ${vacuumAll}`
      : `This database has no autovacuum. Run: ${vacuumAll}`;
    return warning("vacuum", `More rows are dead than alive: ${counts}.`, remedy);
  }
  return ok(
    "vacuum",
    hasAutovacuum ? "Autovacuum is on, and there are few dead rows." : "There are few dead rows.",
  );
}

/** The table's own check covers only a few of the rules for a record's columns, because every write pays for it. */
async function shapes({ executor, statements, schema }: ExamineParts): Promise<Finding> {
  const row = onlyRow(await executor.read(statements.shapes.bind({})));
  const [lookedAt, wrong] = [numberOf(row, "looked_at"), numberOf(row, "wrong")];
  if (wrong === 0) {
    return ok(
      "records",
      `All of the newest records (${lookedAt}) have the columns that their state requires.`,
    );
  }
  const message = `Of the newest records (${lookedAt}), ${wrong} have columns that do not fit their state: a retry of such a key may fail, or its record may never be removed.`;
  const look = `select * from "${schema}".records where id = '${textOf(row, "newest_wrong")}'`;
  return failed(
    "records",
    message,
    `Look at the newest of them: ${look}. Find out what else writes to this table, because Latchkey writes no such rows; if nothing does, report it as a bug.`,
  );
}

/** With fewer attempts a 99th percentile means nothing. */
const attemptsMin = 100;

async function leaseFindings(
  { executor, statements }: ExamineParts,
  leases: ExamineRequest["leases"],
): Promise<Finding | readonly Finding[]> {
  if (leases === null) return notChecked("leases", "Which leases there are is known only with --config.");
  if (leases.length === 0) return ok("leases", "No operation runs under a lease.");
  const findings: Finding[] = [];
  for (const { operation, leaseMs } of leases) {
    const row = onlyRow(await executor.read(statements.durations.bind({ operation })));
    const [attempts, p99Ms] = [numberOf(row, "attempts"), Math.ceil(numberOf(row, "p99_ms"))];
    if (attempts < attemptsMin) {
      const message = `Operation ${operation}: ${attempts} finished attempts are stored, and a 99th percentile needs at least ${attemptsMin}.`;
      findings.push(notChecked("leases", message));
    } else if (p99Ms <= leaseMs) {
      const message = `Operation ${operation}: its lease of ${leaseMs} ms is above the 99th percentile of ${attempts} attempts, ${p99Ms} ms.`;
      findings.push(ok("leases", message));
    } else {
      const message = `Operation ${operation}: its lease of ${leaseMs} ms is below the 99th percentile of ${attempts} attempts, ${p99Ms} ms: longer attempts depend on their heartbeats, and become unknown if the process pauses.`;
      findings.push(warning("leases", message, `Set its leaseMs above ${p99Ms}.`));
    }
  }
  return findings;
}
