/** A flight, cut where something can come between its statements. */
import {
  boundStatement,
  flushBytes,
  type Message,
  type Parsed,
  parsedStatement,
  parseMessage,
} from "./wire.ts";

/** What is delivered to the server at once. */
export interface Part {
  /** What it runs, for the names of choices. */
  readonly label: string;
  readonly bytes: Buffer;
  /** How many statements of it are answered before anything else comes. */
  readonly executes: number;
  /** Whether the server is ready for the next query after it. */
  readonly isLast: boolean;
}

export interface CutFlight {
  readonly parts: readonly Part[];
  /** Whether anything is committed by it. */
  readonly commits: boolean;
}

/** Changes a statement's text, to plant a mistake; null: as it is. */
export type Rewrite = (kind: string, text: string, schema: string) => string | null;

/** The same, where the schema is known. */
export type Planted = (kind: string, text: string) => string | null;

const ownName = /^lk_(.+)_[0-9a-f]{12}$/;
const controls: Readonly<Record<string, string>> = {
  lk_begin: "begin",
  lk_begin_rc: "begin",
  lk_begin_rr: "begin",
  lk_begin_s: "begin",
  lk_commit: "commit",
  lk_rollback: "rollback",
  lk_write_barrier: "write_barrier",
  lk_savepoint: "savepoint",
  lk_release: "release",
  lk_undo: "undo",
};

/** Statements that take no lock and read nothing that others write: no place of their own among the choices. */
const quiet: ReadonlySet<string> = new Set([
  "begin",
  "savepoint",
  "release",
  "undo",
  "wait_settings",
  "barrier",
]);

/**
 * Statements on their own that change nothing: their end is no event for anybody. Not `read_many`: others may begin to look
 * between what it has found and its reply.
 */
const reads: ReadonlySet<string> = new Set([
  "read",
  "read_by_id",
  "journal",
  "settings",
  "ended_leases",
  "call_ended",
  "settled",
  "resumable",
  "audit",
  "effects_started",
  "effects_ended",
  "effects_of_record",
  "effect_decided",
  "list",
  "list_parked",
  "list_dead",
  "list_effects",
]);

function kindOf(name: string): string {
  return controls[name] ?? ownName.exec(name)?.[1] ?? "handler";
}

interface Statement {
  readonly kind: string;
  readonly messages: readonly Message[];
}

/**
 * @param messages up to a Sync, or one simple query
 * @param inTransaction whether the session is in a transaction before them
 */
export function cut(
  messages: readonly Message[],
  inTransaction: boolean,
  rewrite: Planted | undefined,
): CutFlight {
  const [first] = messages;
  if (first?.type === "Q") {
    const part = { label: "handler", bytes: first.bytes, executes: 0, isLast: true };
    return { parts: [part], commits: !inTransaction };
  }
  const sync = messages.at(-1);
  if (sync === undefined) throw new TypeError("A flight ends with a Sync");
  const statements = statementsOf(messages.slice(0, -1), rewrite);
  const kinds = statements.map(({ kind }) => kind);
  const alone = !inTransaction && !kinds.includes("begin");
  const writesAlone = alone && kinds.some((kind) => !reads.has(kind));
  const groups = groupsOf(statements);
  const parts = groups.map((group, index) => {
    const isLast = index === groups.length - 1 && !writesAlone;
    const bytes = group.flatMap((statement) => statement.messages.map((message) => message.bytes));
    return {
      label: loudest(group),
      bytes: Buffer.concat([...bytes, isLast ? sync.bytes : flushBytes]),
      executes: group.length,
      isLast,
    };
  });
  // A statement by itself commits with the Sync: until then its locks are held.
  const last = { label: `${parts.at(-1)?.label} ends`, bytes: sync.bytes, executes: 0, isLast: true };
  return {
    parts: writesAlone ? [...parts, last] : parts,
    commits: writesAlone || kinds.includes("commit"),
  };
}

function statementsOf(messages: readonly Message[], rewrite: Planted | undefined): readonly Statement[] {
  const statements: Statement[] = [];
  let kind = "handler";
  let collected: Message[] = [];
  for (const message of messages) {
    if (message.type === "B") kind = kindOf(boundStatement(message));
    collected.push(message.type === "P" ? rewritten(message, rewrite) : message);
    if (message.type !== "E") continue;
    statements.push({ kind, messages: collected });
    collected = [];
  }
  // What follows the last Execute (a Close, say) goes with it.
  const last = statements.pop();
  if (last === undefined) return [{ kind, messages: collected }];
  return [...statements, { kind: last.kind, messages: [...last.messages, ...collected] }];
}

function rewritten(message: Message, rewrite: Planted | undefined): Message {
  if (rewrite === undefined) return message;
  const parsed: Parsed = parsedStatement(message);
  const text = rewrite(kindOf(parsed.name), parsed.text);
  return text === null ? message : parseMessage({ ...parsed, text });
}

/** Quiet statements go with the next one, or with the one before when they are the last. */
function groupsOf(statements: readonly Statement[]): readonly (readonly Statement[])[] {
  const groups: Statement[][] = [];
  let open: Statement[] = [];
  for (const statement of statements) {
    open.push(statement);
    if (quiet.has(statement.kind)) continue;
    groups.push(open);
    open = [];
  }
  if (open.length === 0) return groups;
  const last = groups.pop();
  return [...groups, [...(last ?? []), ...open]];
}

function loudest(group: readonly Statement[]): string {
  return group.find(({ kind }) => !quiet.has(kind))?.kind ?? group[0]?.kind ?? "nothing";
}
