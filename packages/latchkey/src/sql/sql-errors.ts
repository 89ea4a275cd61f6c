/** What a failed statement or COMMIT on Postgres means. Bridges and stores share this one table of error classes. */

import type { Certainty } from "../errors.ts";
import { plainText } from "../plain-text.ts";
import { sqlStateOf } from "./sql-state.ts";

/**
 * How far the caller had got.
 * - `connect`: no statement was sent.
 * - `statement`: statements were sent, but nothing that commits.
 * - `commit`: COMMIT was sent, or a statement that commits by itself.
 */
export type SqlPhase = "connect" | "statement" | "commit";

/**
 * Whether the server answered again after the error: `answered` when it is ready for the next query, `gone`
 * when it is known that it did not, `unseen` where the client hides it.
 */
export type ServerAfter = "answered" | "gone" | "unseen";

interface ErrorClass {
  readonly matches: (state: string) => boolean;
  readonly certainty: Certainty;
  readonly why: string;
}

const oneOf =
  (...states: readonly string[]) =>
  (state: string) =>
    states.includes(state);

/**
 * SQLSTATEs that do not mean "the server refused this statement and undid it". Everything else that a live server
 * reports does.
 */
const specialStates: readonly ErrorClass[] = [
  { matches: oneOf("53300"), certainty: "not_sent", why: "too many connections" },
  { matches: oneOf("57P03"), certainty: "not_sent", why: "the server is starting up or shutting down" },
  { matches: oneOf("57P01", "57P02", "57P05"), certainty: "in_doubt", why: "the session was ended" },
  { matches: (state) => state.startsWith("08"), certainty: "in_doubt", why: "the connection failed" },
  { matches: oneOf("40003"), certainty: "in_doubt", why: "the server itself does not know" },
];

/** Codes of network errors that mean that no connection was made. */
const unconnectedCodes: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EAI_AGAIN",
  "ENOENT",
]);

/** `pg` gives its pool's time-outs no code. */
const unconnectedMessages: readonly string[] = [
  "timeout exceeded when trying to connect",
  "Connection terminated due to connection timeout",
];

/** How certain it is, after `error`, that nothing happened. */
export function certaintyOf(error: unknown, phase: SqlPhase, after: ServerAfter): Certainty {
  if (phase === "connect") return "not_sent";
  const reported = reportedCertainty(error, after);
  // Without COMMIT nothing stays, whatever happened to the connection.
  return phase === "statement" && reported === "in_doubt" ? "rolled_back" : reported;
}

function reportedCertainty(error: unknown, after: ServerAfter): Certainty {
  const state = sqlStateOf(error);
  if (state === null) return isUnconnected(error) ? "not_sent" : "in_doubt";
  const special = specialStates.find(({ matches }) => matches(state));
  if (special !== undefined) return special.certainty;
  if (after === "gone") return "in_doubt";
  // A FATAL or PANIC may occur while COMMIT is being made durable. In a language other than English every severity is
  // unknown here, which only costs time, because doubts are resolved.
  return after === "unseen" && (severityOf(error) ?? "ERROR") !== "ERROR" ? "in_doubt" : "rolled_back";
}

function isUnconnected(error: unknown): boolean {
  for (const cause of causesOf(error)) {
    if ("code" in cause && typeof cause.code === "string" && unconnectedCodes.has(cause.code)) return true;
    if (unconnectedMessages.includes(cause.message)) return true;
  }
  return false;
}

function severityOf(error: unknown): string | null {
  for (const cause of causesOf(error)) {
    if ("severity" in cause && typeof cause.severity === "string") return cause.severity;
  }
  return null;
}

/** How deep an ORM may wrap a driver's error. */
const causeDepthMax = 5;

function causesOf(error: unknown): readonly Error[] {
  const causes: Error[] = [];
  let current = error;
  while (current instanceof Error && causes.length < causeDepthMax) {
    causes.push(current);
    current = current.cause;
  }
  return causes;
}

/** Why a transaction was refused, as far as the caller can do something about it. */
export type Refusal =
  /** Running all of it again may succeed. */
  | "serialization"
  /** An earlier error in it was swallowed. */
  | "aborted"
  /** Latchkey's guard: the record has changed since admission read it. */
  | "guard"
  /** Latchkey's guard: this is not the transaction that admission opened, or none is open. */
  | "changed"
  | "other";

const refusals: ReadonlyMap<string, Refusal> = new Map([
  ["40001", "serialization"],
  ["40P01", "serialization"],
  // The server has dropped a prepared statement: on a new try, which prepares it again, the same transaction succeeds.
  ["26000", "serialization"],
  ["25P02", "aborted"],
  ["22012", "guard"],
  ["2201F", "changed"],
  ["25P01", "changed"],
  ["3B001", "changed"],
]);

/** Why a closing statement was refused, from its SQLSTATE. */
export function refusalOf(sqlState: string): Refusal {
  return refusals.get(sqlState) ?? "other";
}

/**
 * The message, followed by the server's own message if that is about the server, a privilege or something that does not
 * exist, because then it names settings and tables, never a value.
 */
export function withServersWords(message: string, error: unknown): string {
  const state = sqlStateOf(error);
  const [cause] = causesOf(error).filter((one) => "code" in one && one.code === state);
  if (state === null || cause === undefined) return message;
  const isSafe = isOfServer(state) || state.startsWith("42") || state === "0A000";
  return isSafe ? `${message}: ${plainText(cause.message)} (${state})` : message;
}

/**
 * Whether a state is about the server and not about the work: resources (53), an object in use or not ready (55), an
 * operator's intervention (57), the system (58), a lost connection (08), a transaction that is read-only or took too
 * long (25).
 */
export function isOfServer(sqlState: string): boolean {
  return /^(?:08|25|53|55|57|58)/.test(sqlState);
}

/** Whether a privilege was missing: perhaps only in this session, because a handler's SET ROLE is still in effect. */
export function isForbidden(error: unknown): boolean {
  return sqlStateOf(error) === "42501";
}

export interface ConstraintName {
  readonly schema: string;
  readonly table: string;
  readonly constraint: string;
}

/** Whether exactly this unique constraint refused a row, which identifies the statement. */
export function isViolationOf(error: unknown, name: ConstraintName): boolean {
  const fields = Object.entries({ code: "23505", ...name });
  return causesOf(error).some((cause) => fields.every(([field, text]) => Reflect.get(cause, field) === text));
}

/** Whether the error means that Latchkey's tables or columns do not exist. */
export function isSchemaMissing(error: unknown): boolean {
  return ["42P01", "3F000", "42703"].includes(sqlStateOf(error) ?? "");
}
