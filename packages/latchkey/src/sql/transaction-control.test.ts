import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { patient } from "../../../../test/support/patience.ts";
import { findTransactionControl, mayLeaveBehind } from "./transaction-control.ts";

test.each([
  ["BEGIN", "BEGIN"],
  ["begin isolation level serializable", "BEGIN"],
  ["start transaction read only", "START"],
  ["COMMIT", "COMMIT"],
  ["commit;", "COMMIT"],
  ["  \n\tCommit and chain", "COMMIT"],
  ["commit prepared 'x'", "COMMIT"],
  ["end", "END"],
  ["END TRANSACTION", "END"],
  ["abort", "ABORT"],
  ["rollback", "ROLLBACK"],
  ["ROLLBACK WORK", "ROLLBACK"],
  ["rollback transaction and no chain", "ROLLBACK"],
  ["rollback prepared 'to'", "ROLLBACK"],
  ["prepare transaction 'x'", "PREPARE TRANSACTION"],
  ["select 1; commit", "COMMIT"],
  ["select 1;;/* x */ -- y\n commit", "COMMIT"],
  ["/* a /* nested */ comment */ commit", "COMMIT"],
  ["-- commit\ncommit", "COMMIT"],
  ["-- a\rcommit", "COMMIT"],
  ["select 'it''s; ok'; commit", "COMMIT"],
  [String.raw`select E'\'; commit; --'; rollback`, "ROLLBACK"],
  [String.raw`select E'a''\'b'; commit`, "COMMIT"],
  [String.raw`select 'a\'; commit --'`, "COMMIT"],
  ['select "a;b""c"; commit', "COMMIT"],
  ["select $$ begin; $$; commit", "COMMIT"],
  ["select $a$ $b$ ; $a$; commit", "COMMIT"],
  ["select $1; commit", "COMMIT"],
  ["select a$b$; commit; select c$b$", "COMMIT"],
  ["select 1e'x'; commit", "COMMIT"],
  ["create table begin_x (a int); commit", "COMMIT"],
  ["create function f() returns int begin atomic select 1; end; commit", "COMMIT"],
  ["create function f() returns int begin atomic select case when true then 1 end; end; commit", "COMMIT"],
  ["select 1 $ ; commit", "COMMIT"],
])("%j is refused as %s", (sql, found) => {
  expect(findTransactionControl(sql)).toBe(found);
});

test.each([
  "",
  "select 1",
  "savepoint a",
  "release savepoint a",
  "release a",
  "rollback to a",
  "rollback to savepoint a",
  "ROLLBACK WORK TO SAVEPOINT a",
  "rollback /* x */ transaction -- y\n to a",
  "select case when true then 1 end",
  "select 'commit'",
  "select '; commit'",
  "select ';' as commit",
  'select 1 as "a"; select 2 as "; commit"',
  "select $$; commit; $$",
  "select $tag$; commit; $tag$",
  "select $tag$; commit; $ta$ commit $tag$",
  String.raw`select E'\'; commit; --'`,
  "-- commit",
  "/* ; commit */ select 1",
  "/* ; /* ; commit */ ; commit */ select 1",
  "select 1 /* ; commit",
  "select '; commit",
  'select "; commit',
  "select $$; commit",
  "prepare transaction_plan as select 1",
  'prepare "transaction" as select 1',
  "do $$ begin perform 1; end $$",
  "create function f() returns int language sql begin atomic select 1; select 2; end",
  "create or replace procedure p() begin atomic insert into t values (case when true then 1 end); end; select 1",
  "commitment",
  "select commit from t",
  "insert into end_of_day values (1)",
  "with begin as (select 1) select * from begin",
])("%j is let through", (sql) => {
  expect(findTransactionControl(sql)).toBe(null);
});

describe("on any text", () => {
  const piece = fc.constantFrom(
    ..."'\"$;-/*\\ \nEe1a".split(""),
    "$a$",
    "--",
    "/*",
    "*/",
    "commit",
    "begin atomic",
    "end",
    "create",
    "''",
    "rollback to",
  );

  test("it ends, and a control statement put in front is always found", () => {
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 60 }), (pieces) => {
        expect(findTransactionControl(`commit;${pieces.join("")}`)).toBe("COMMIT");
      }),
      { numRuns: 2_000 },
    );
  });

  test("what stands inside one dollar quote is never read", () => {
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
        expect(findTransactionControl(`select $lk$${pieces.join("")}$lk$`)).toBe(null);
      }),
      { numRuns: 2_000 },
    );
  });
});

test.each([
  ["'", "quotes"],
  ["$a$ ", "dollar quotes"],
  ["$a", "openings of dollar quotes"],
  ["/*", "openings of comments"],
  ["E'\\", "escape strings"],
  ["''", "doubled quotes"],
  ["E'''", "doubled quotes in escape strings"],
  ["begin;case ", "bodies"],
  ["\n", "line breaks"],
  ["\n ", "line breaks and spaces"],
  ["; ", "ends of statements"],
])("two million characters of %j are read in linear time", (unit) => {
  const many = unit.repeat(2_000_000 / unit.length);
  // Of this thread alone, however busy the machine. In quadratic time each would take hours.
  const before = process.threadCpuUsage();
  findTransactionControl(`select commit ${many}`);
  findTransactionControl(`select commit, E'${many}`);
  mayLeaveBehind(`insert into t values ('${many}')`);
  mayLeaveBehind(`set a = ${many}`);
  expect(process.threadCpuUsage(before).user / 1_000).toBeLessThan(patient(3_000));
});

test.each([
  ["set local a.b = 1", true],
  ["SET constraints all deferred", true],
  ["declare c cursor for select 1", true],
  ["prepare p as select 1", true],
  ["/* orders.ts:7 */ set local a.b = 1", true],
  ["/* a /* nested */ comment */ set local a.b = 1", true],
  ["-- orders.ts\nset local a.b = 1", true],
  ["reset a.b", true],
  ["do $$ begin perform 1; end $$", true],
  ["call remember('a')", true],
  ["-- it's\r\n call remember('a')", true],
  ["select ';'; -- x\n /* y */ set local a.b = 1", true],
  ["update t\n  set a = 1", false],
  ["update t /* ; */ set a = 1", false],
  ["insert into t values ('; set local a = 1')", false],
  ["select $$; set local a = 1$$", false],
  ["select 1 as prepare", false],
  ["insert into t values (1)\n  on conflict do nothing", false],
  ["insert into t values (1) on conflict\n  do nothing", false],
  ["", false],
])("whether %j leaves something behind: %s", (sql, expected) => {
  expect(mayLeaveBehind(sql)).toBe(expected);
});
