/**
 * The properties of a session that Latchkey depends on, and how its closing statements restore the session that its opening
 * statements had.
 */
import { type LatchkeyError, StoreError } from "../../../errors.ts";
import { type SessionSettings, sessionSettings } from "../../../sql/session-settings.ts";
import type { SqlRow, SqlStatement } from "../../../sql/transaction.ts";
import { sql } from "../sql/texts.ts";
import { onlyRow } from "../statements/rows.ts";
import type { SqlNames } from "../statements/sql-parts.ts";
import { plainStatement, statement } from "../statements/statement.ts";
import type { StatementTemplate } from "../statements/template.ts";
import { unsuitable } from "../suitability.ts";

export const sessionStatements = {
  asOpened: plainStatement("as_opened", sql.asOpened),
  asLeft: plainStatement("as_left", sql.asLeft),
};

/** An opening statement in two forms: for any session, and for sessions whose own time limits are all higher. */
export type Opening = Readonly<Record<"comparing" | "plain", StatementTemplate>>;

export function openingStatement(kind: string, text: string, names: SqlNames): Opening {
  return {
    comparing: statement(kind, text, { ...names, compared: true }),
    plain: statement(kind, text, names),
  };
}

/** The session as the opening statements found it. */
export interface OpenedSession {
  readonly settings: SessionSettings;
  /** Why nothing can be written in this transaction; null if writes are possible. */
  readonly refusal: StoreError | null;
}

/** The opening statement has replaced a lower time limit of the session's own. The transaction begins again, with that limit. */
export class LimitsLost extends Error {}

/**
 * @throws {LatchkeyError} `store-unsuitable` if `client_encoding` is not UTF8, or if a role or a schema has U+001F in its name
 * @throws {LimitsLost} if the opening statement has replaced a lower time limit
 */
export function openedSession(row: SqlRow, seen: SeenSessions): OpenedSession {
  const settings = sessionSettings(row);
  if (settings === null) throw unsuitable("A role or a schema of the session has U+001F in its name");
  if (settings.encoding !== "UTF8") throw unsuitableEncoding();
  seen.noteLimits(settings);
  return { settings, refusal: settings.read_only === "on" ? readOnly() : null };
}

export function unsuitableEncoding(): LatchkeyError {
  const message =
    "The session's client_encoding is not UTF8: keys would be stored as other texts. Leave it as `pg` sets it";
  return unsuitable(message);
}

function readOnly(): StoreError {
  const message =
    "The transaction is read-only: default_transaction_read_only is on, or the server is a standby. Nothing was run";
  return new StoreError("rolled_back", { message });
}

/** The closing statements. If the handler may have changed the session, they run with the settings that it had at the opening statements. */
export function inOpenedSession(
  { settings }: OpenedSession,
  mayHaveChanged: boolean,
  closing: readonly SqlStatement[],
): readonly SqlStatement[] {
  if (!mayHaveChanged) return closing;
  const { asOpened, asLeft } = sessionStatements;
  return [asOpened.bind(settings), ...closing, asLeft.bind({})];
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
  /** Whether a session had a time limit of its own that was as low as Latchkey's; null until a transaction was opened. */
  #hasLimits: boolean | null = null;
  #restores = false;

  opening({ comparing, plain }: Opening): StatementTemplate {
    return this.#hasLimits === false ? plain : comparing;
  }

  /** @throws {LimitsLost} */
  noteLimits({ limitsExceedByMs }: SessionSettings): void {
    this.#hasLimits = this.#hasLimits === true || !(limitsExceedByMs > 0);
    if (limitsExceedByMs < 0) throw new LimitsLost("The transaction begins again");
  }

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
