import { describe, expect, test } from "vitest";
import {
  certaintyOf,
  isSchemaMissing,
  isViolationOf,
  refusalOf,
  type ServerAfter,
  type SqlPhase,
} from "./sql-errors.ts";

interface ErrorFields {
  readonly code?: string;
  readonly severity?: string;
  readonly syscall?: string;
}

function failure(message: string, fields: ErrorFields = {}): Error {
  return Object.assign(new Error(message), fields);
}

const fromServer = (code: string, severity = "ERROR") => failure("the server says no", { code, severity });
const refused = failure("connect ECONNREFUSED", { code: "ECONNREFUSED", syscall: "connect" });
const reset = failure("read ECONNRESET", { code: "ECONNRESET", syscall: "read" });
const brokenPipe = failure("write EPIPE", { code: "EPIPE", syscall: "write" });
const poolTimeout = failure("timeout exceeded when trying to connect");
const queryTimeout = failure("Query read timeout");
const terminated = failure("Connection terminated unexpectedly");

const rows: readonly (readonly [
  what: string,
  error: unknown,
  phase: SqlPhase,
  after: ServerAfter,
  expected: string,
])[] = [
  ["anything while connecting", reset, "connect", "unseen", "not_sent"],
  ["refused", refused, "statement", "unseen", "not_sent"],
  ["refused, where COMMIT was meant", refused, "commit", "unseen", "not_sent"],
  ["a wrapped refusal", new Error("ORM", { cause: refused }), "commit", "unseen", "not_sent"],
  ["the pool's time-out", poolTimeout, "commit", "unseen", "not_sent"],
  ["53300", fromServer("53300", "FATAL"), "statement", "gone", "not_sent"],
  ["57P03", fromServer("57P03", "FATAL"), "commit", "gone", "not_sent"],
  ["an SQLSTATE before COMMIT", fromServer("23505"), "statement", "answered", "rolled_back"],
  ["a lost socket before COMMIT", reset, "statement", "gone", "rolled_back"],
  ["57P01 before COMMIT", fromServer("57P01", "FATAL"), "statement", "gone", "rolled_back"],
  ["an SQLSTATE of COMMIT, server alive", fromServer("40001"), "commit", "answered", "rolled_back"],
  ["a deferred violation at COMMIT, by an ORM", fromServer("23505"), "commit", "unseen", "rolled_back"],
  ["a lost socket at COMMIT", reset, "commit", "gone", "in_doubt"],
  ["EPIPE at COMMIT is no SQLSTATE", brokenPipe, "commit", "unseen", "in_doubt"],
  ["a connection that ended at COMMIT", terminated, "commit", "unseen", "in_doubt"],
  ["a read time-out at COMMIT", queryTimeout, "commit", "unseen", "in_doubt"],
  ["57P01 at COMMIT", fromServer("57P01", "FATAL"), "commit", "unseen", "in_doubt"],
  ["57P02 at COMMIT", fromServer("57P02", "FATAL"), "commit", "unseen", "in_doubt"],
  ["08006 at COMMIT", fromServer("08006"), "commit", "answered", "in_doubt"],
  ["08007 at COMMIT", fromServer("08007"), "commit", "answered", "in_doubt"],
  ["40003 at COMMIT", fromServer("40003"), "commit", "answered", "in_doubt"],
  [
    "a full disk that killed the server at COMMIT",
    fromServer("53100", "PANIC"),
    "commit",
    "gone",
    "in_doubt",
  ],
  ["the same, seen by an ORM only", fromServer("53100", "PANIC"), "commit", "unseen", "in_doubt"],
  ["a full disk that the server survived", fromServer("53100"), "commit", "answered", "rolled_back"],
  ["a FATAL in another language", fromServer("58030", "FATAL"), "commit", "unseen", "in_doubt"],
  [
    "an error wrapped by an ORM",
    new Error("x", { cause: fromServer("23505") }),
    "commit",
    "unseen",
    "rolled_back",
  ],
  ["something that is no error", "oops", "commit", "unseen", "in_doubt"],
];

describe("certaintyOf", () => {
  test.each(rows)("%s", (_what, error, phase, after, expected) => {
    expect(certaintyOf(error, phase, after)).toBe(expected);
  });
});

test.each([
  ["40001", "serialization"],
  ["40P01", "serialization"],
  ["26000", "serialization"],
  ["25P02", "aborted"],
  ["22012", "guard"],
  ["2201F", "changed"],
  ["25P01", "changed"],
  ["3B001", "changed"],
  ["23505", "other"],
  ["57014", "other"],
  ["constructor", "other"],
])("a closing statement refused with %s: %s", (state, expected) => {
  expect(refusalOf(state)).toBe(expected);
});

test("a row refused by one constraint, and by no other", () => {
  const name = { schema: "latchkey", table: "records", constraint: "records_pkey" };
  const refused = Object.assign(new Error("duplicate key"), { code: "23505", ...name });
  expect(isViolationOf(refused, name)).toBe(true);
  expect(isViolationOf(new Error("Failed query", { cause: refused }), name)).toBe(true);
  for (const other of [{ code: "23514" }, { schema: "public" }, { table: "orders" }, { constraint: "x" }]) {
    expect(isViolationOf(Object.assign(new Error("other"), refused, other), name)).toBe(false);
  }
  expect(isViolationOf(fromServer("23505"), name)).toBe(false);
  expect(isViolationOf(undefined, name)).toBe(false);
});

test("tables or columns that are not there", () => {
  expect(isSchemaMissing(fromServer("42P01"))).toBe(true);
  expect(isSchemaMissing(new Error("x", { cause: fromServer("3F000") }))).toBe(true);
  expect(isSchemaMissing(fromServer("42703"))).toBe(true);
  expect(isSchemaMissing(fromServer("42501"))).toBe(false);
  expect(isSchemaMissing(reset)).toBe(false);
});
