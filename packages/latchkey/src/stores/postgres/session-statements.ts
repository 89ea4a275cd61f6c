/**
 * The properties of a session that Latchkey depends on, and how its closing statements restore the session that its opening
 * statements had.
 */
import { LatchkeyError, StoreError } from "../../errors.ts";
import type { SqlRow, SqlStatement } from "../../sql/transaction.ts";
import { onlyRow, textOf } from "./rows.ts";
import { sql } from "./sql/texts.ts";
import { plainStatement } from "./statement.ts";

/** Columns of the opening statement with the settings that a handler may change for its transaction. */
const restoredColumns = ["session_owner", "session_role", "row_security", "search_path", "encoding"];

export const sessionStatements = {
  asOpened: plainStatement("as_opened", sql.asOpened),
  asLeft: plainStatement("as_left", sql.asLeft),
};

/** The session as the opening statements found it. */
export interface OpenedSession {
  readonly isolation: string;
  /** Why nothing can be written in this transaction; null if writes are possible. */
  readonly refusal: StoreError | null;
  /** The opening statement's row, with the settings to restore. */
  readonly row: SqlRow;
}

/** @throws {LatchkeyError} `store-unsuitable` if texts would be stored as other texts */
export function openedSession(row: SqlRow): OpenedSession {
  if (textOf(row, "encoding") !== "UTF8") throw unsuitableEncoding();
  return {
    isolation: textOf(row, "isolation"),
    refusal: textOf(row, "read_only") === "on" ? readOnly() : null,
    row,
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

/** The closing statements. If the handler may have changed the session, they run with the settings that it had at the opening statements. */
export function inOpenedSession(
  session: OpenedSession,
  mayHaveChanged: boolean,
  closing: readonly SqlStatement[],
): readonly SqlStatement[] {
  if (!mayHaveChanged) return closing;
  const { asOpened, asLeft } = sessionStatements;
  const restored = Object.fromEntries(restoredColumns.map((column) => [column, textOf(session.row, column)]));
  return [asOpened.bind(restored), ...closing, asLeft.bind({})];
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
