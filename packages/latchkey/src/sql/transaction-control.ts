/**
 * Finds statements that begin or end a transaction in SQL text that a handler is about to send. One pass, no
 * backtracking. It recognises comments, strings, dollar quotes, quoted names and SQL function bodies; it assumes
 * `standard_conforming_strings`. The guard that travels with COMMIT catches what it misses.
 */

/** Texts without any of these words, which are nearly all, need no second look. */
const suspiciousWord = /\b(?:begin|start|commit|end|rollback|abort|prepare)\b/i;

const alwaysControl: ReadonlySet<string> = new Set(["begin", "start", "commit", "end", "abort"]);
/** `ROLLBACK TRANSACTION TO …` needs the most words to be recognised. */
const headWordsMax = 3;

/**
 * The first statement in `sql` that begins or ends a transaction, as its leading words in upper case; null when there
 * is none. SAVEPOINT, RELEASE and ROLLBACK TO are not transaction control in this sense.
 */
export function findTransactionControl(sql: string): string | null {
  return suspiciousWord.test(sql) ? scan(sql, controlOf) : null;
}

/**
 * Where one of these words may begin a statement: at the beginning, after another statement, or after a comment. A line break
 * is a beginning and not skipped, because a search that skipped them would take quadratic time over many.
 */
const suspiciousBeginning = /(?:^|;|\*\/|[\n\r])[^\S\n\r]*(?:set|reset|declare|prepare|do|call)\b/i;

const leaving: ReadonlySet<string> = new Set(["set", "reset", "declare", "prepare", "do", "call"]);

/**
 * Whether a statement in `sql` may affect later statements of its transaction beside what it writes: it changes a setting,
 * declares a cursor, prepares a statement, or runs a block of code that could do so. What a function that a query calls does
 * cannot be seen here.
 */
export function mayLeaveBehind(sql: string): boolean {
  return (
    suspiciousBeginning.test(sql) && scan(sql, ([first = ""]) => (leaving.has(first) ? first : null)) !== null
  );
}

interface Statement {
  /** Its first words in lower case, up to the first token that is not a word. */
  readonly head: string[];
  headClosed: boolean;
  lastWord: string;
  /** Above 0 inside `BEGIN ATOMIC … END` of CREATE FUNCTION, where `;` separates nothing. */
  bodyDepth: number;
}

/** The first result of `judge` that is not null, statement by statement. */
function scan(sql: string, judge: (head: readonly string[]) => string | null): string | null {
  let statement = newStatement();
  let at = 0;
  while (at < sql.length) {
    const after = skipTrivia(sql, at);
    if (after > at) {
      at = after;
    } else if (sql[at] === ";" && statement.bodyDepth === 0) {
      const found = judge(statement.head);
      if (found !== null) return found;
      statement = newStatement();
      at += 1;
    } else if (isWordStart(sql, at)) {
      const end = endOfWord(sql, at);
      const word = sql.slice(at, end).toLowerCase();
      if (word === "e" && sql[end] === "'") {
        statement.headClosed = true;
        at = endOfEscapeString(sql, end);
      } else {
        addWord(statement, word);
        at = end;
      }
    } else {
      statement.headClosed = true;
      at = endOfOther(sql, at);
    }
  }
  return judge(statement.head);
}

function newStatement(): Statement {
  return { head: [], headClosed: false, lastWord: "", bodyDepth: 0 };
}

function addWord(statement: Statement, word: string): void {
  if (!statement.headClosed && statement.head.length < headWordsMax) statement.head.push(word);
  if (statement.bodyDepth > 0) {
    if (word === "case") statement.bodyDepth += 1;
    if (word === "end") statement.bodyDepth -= 1;
  } else if (statement.head[0] === "create" && statement.lastWord === "begin" && word === "atomic") {
    statement.bodyDepth = 1;
  }
  statement.lastWord = word;
}

function controlOf(head: readonly string[]): string | null {
  const [first = "", second = "", third = ""] = head;
  if (alwaysControl.has(first)) return first.toUpperCase();
  if (first === "prepare" && second === "transaction") return "PREPARE TRANSACTION";
  if (first !== "rollback") return null;
  const afterNoise = second === "work" || second === "transaction" ? third : second;
  return afterNoise === "to" ? null : "ROLLBACK";
}

/** Past white space and comments; block comments nest. */
function skipTrivia(sql: string, from: number): number {
  let at = from;
  for (;;) {
    if (isSpace(sql, at)) at += 1;
    else if (sql.startsWith("--", at)) at = endOfLine(sql, at);
    else if (sql.startsWith("/*", at)) at = endOfBlockComment(sql, at);
    else return at;
  }
}

function endOfLine(sql: string, from: number): number {
  let at = from;
  while (at < sql.length && sql[at] !== "\n" && sql[at] !== "\r") at += 1;
  return at;
}

function endOfBlockComment(sql: string, from: number): number {
  let depth = 0;
  let at = from;
  while (at < sql.length) {
    if (sql.startsWith("/*", at)) {
      depth += 1;
      at += 2;
    } else if (sql.startsWith("*/", at)) {
      depth -= 1;
      at += 2;
      if (depth === 0) return at;
    } else {
      at += 1;
    }
  }
  return at;
}

/** Past one token that is neither trivia nor a word: a string, a quoted name, a number, or one character. */
function endOfOther(sql: string, at: number): number {
  const char = sql[at];
  if (char === "'" || char === '"') return endOfQuoted(sql, at, char);
  if (char === "$") return endOfDollarQuoted(sql, at);
  // A number takes the letters that touch it, so that the `e` of 1e'…' opens no escape string.
  return isDigit(sql, at) ? endOfWord(sql, at) : at + 1;
}

/** A doubled quote inside ends one run and begins the next, which comes to the same. */
function endOfQuoted(sql: string, from: number, quote: string): number {
  const close = sql.indexOf(quote, from + 1);
  return close < 0 ? sql.length : close + 1;
}

function endOfEscapeString(sql: string, from: number): number {
  let at = from + 1;
  while (at < sql.length) {
    if (sql[at] === "\\") at += 2;
    else if (sql[at] !== "'") at += 1;
    else if (sql[at + 1] === "'") at += 2;
    else return at + 1;
  }
  return sql.length;
}

function endOfDollarQuoted(sql: string, from: number): number {
  let at = from + 1;
  if (isDigit(sql, at)) return at;
  while (isWordPart(sql, at) && sql[at] !== "$") at += 1;
  if (sql[at] !== "$") return from + 1;
  const tag = sql.slice(from, at + 1);
  const close = sql.indexOf(tag, at + 1);
  return close < 0 ? sql.length : close + tag.length;
}

function endOfWord(sql: string, from: number): number {
  let at = from;
  while (isWordPart(sql, at)) at += 1;
  return at;
}

function isSpace(sql: string, at: number): boolean {
  const code = sql.charCodeAt(at);
  return code === 0x20 || (code >= 0x09 && code <= 0x0d);
}

function isDigit(sql: string, at: number): boolean {
  const code = sql.charCodeAt(at);
  return code >= 0x30 && code <= 0x39;
}

/** Postgres takes every character beyond ASCII for a letter. */
function isWordStart(sql: string, at: number): boolean {
  const code = sql.charCodeAt(at);
  const lower = code | 0x20;
  return (lower >= 0x61 && lower <= 0x7a) || code === 0x5f || code >= 0x80;
}

function isWordPart(sql: string, at: number): boolean {
  return isWordStart(sql, at) || isDigit(sql, at) || sql.charCodeAt(at) === 0x24;
}
