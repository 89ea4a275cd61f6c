/**
 * The properties of a session that Latchkey depends on, and how its closing statements restore the session that its opening
 * statements had.
 */
import { LatchkeyError, StoreError } from "../../errors.ts";
import type { SqlRow, SqlStatement } from "../../sql/transaction.ts";
import { onlyRow, textOf } from "./rows.ts";
import { template } from "./template.ts";

const owner = "session_user::pg_catalog.text";

/** Columns of each opening statement. Each costs less than a microsecond. */
export const sessionColumns = `
    ${setting("transaction_isolation")} as isolation, ${setting("transaction_read_only")} as read_only,
    ${setting("client_encoding")} as encoding, ${setting("role")} as session_role,
    ${setting("row_security")} as row_security, ${setting("search_path")} as search_path,
    ${owner} as session_owner, pg_catalog.current_schemas(true)::pg_catalog.text as schemas`;

function setting(name: string): string {
  return `pg_catalog.current_setting('${name}')`;
}

/** Settings that a handler may change for its transaction, with the column that has the earlier value; the order matters. */
const restored = {
  session_authorization: "session_owner",
  role: "session_role",
  row_security: "row_security",
  search_path: "search_path",
  client_encoding: "encoding",
} as const;

/** The session authorization is assigned only if it was changed, which only a superuser's session can do. */
function assign(name: string, value: string): string {
  const set = `pg_catalog.set_config('${name}', ${value}, true)`;
  return name === "session_authorization" ? `case when ${owner} <> ${value} then ${set} end` : set;
}

const kept = (name: string) => `latchkey.left_${name}`;

/** Expressions of a SELECT without FROM are evaluated from left to right: each value is kept before it is replaced. */
function asOpened(): string {
  const keep = Object.keys(restored).map((name) => {
    const value = name === "session_authorization" ? owner : setting(name);
    return `pg_catalog.set_config('${kept(name)}', ${value}, true) as kept_${name}`;
  });
  const restore = Object.entries(restored).map(
    ([name, column]) => `${assign(name, `@${column}::pg_catalog.text`)} as own_${name}`,
  );
  return `select ${[...keep, ...restore].join(", ")}`;
}

/** Puts the handler's settings back for the user's own deferred triggers, which run at COMMIT. */
function asLeft(): string {
  const back = Object.keys(restored).map((name) => `${assign(name, setting(kept(name)))} as left_${name}`);
  return `select ${back.join(", ")}`;
}

const sessionStatements = {
  asOpened: template("as_opened", asOpened()),
  asLeft: template("as_left", asLeft()),
};

/** The session as the opening statements found it. */
export interface OpenedSession {
  readonly isolation: string;
  /** Why nothing can be written in this transaction; null if writes are possible. */
  readonly refusal: StoreError | null;
  readonly restored: Readonly<Record<string, string>>;
}

/** @throws {LatchkeyError} `store-unsuitable` if texts would be stored as other texts */
export function openedSession(row: SqlRow): OpenedSession {
  if (textOf(row, "encoding") !== "UTF8") throw unsuitableEncoding();
  const columns = Object.values(restored);
  return {
    isolation: textOf(row, "isolation"),
    refusal: textOf(row, "read_only") === "on" ? readOnly() : null,
    restored: Object.fromEntries(columns.map((column) => [column, textOf(row, column)])),
  };
}

export function unsuitableEncoding(): LatchkeyError {
  const message =
    "The session's client_encoding is not UTF8: keys would be stored as other texts. Leave it as `pg` sets it";
  return new LatchkeyError("store-unsuitable", { message });
}

function readOnly(): StoreError {
  const message =
    "The transaction is read-only: default_transaction_read_only is on, or the server is a standby. Nothing was run";
  return new StoreError("rolled_back", { message });
}

/** The closing statements; if the handler may have changed the session, they run in that of the opening ones. */
export function inOpenedSession(
  session: OpenedSession,
  mayHaveChanged: boolean,
  closing: readonly SqlStatement[],
): readonly SqlStatement[] {
  if (!mayHaveChanged) return closing;
  const { asOpened, asLeft } = sessionStatements;
  return [asOpened.bind(session.restored), ...closing, asLeft.bind({})];
}

/** The row of Latchkey's last own closing statement. */
export function closedRow(closed: readonly (readonly SqlRow[])[]): SqlRow {
  const isOwn = ([row]: readonly SqlRow[]) => row === undefined || !("left_role" in row);
  return onlyRow(closed.findLast(isOwn));
}

/** What this process has found out about the sessions of its pool. */
export class SeenSessions {
  /** The default isolation level of sessions; null if none was read yet. */
  isolation: string | null = null;
  #restores = false;

  mayHaveChanged(session: { readonly mayHaveChangedSession?: (() => boolean) | undefined }): boolean {
    return this.#restores || (session.mayHaveChangedSession?.() ?? true);
  }

  /** From now on every handler counts as one that has changed its session. Returns false if that was already so. */
  restoreFromNowOn(): boolean {
    const before = this.#restores;
    this.#restores = true;
    return !before;
  }
}
