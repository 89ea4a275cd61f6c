import { expect, test } from "vitest";
import { sessionSettings } from "./session-settings.ts";

const settings = [
  "read committed",
  "off",
  "UTF8",
  "app",
  "none",
  "on",
  '"$user", public',
  "{pg_catalog,public}",
];
const read = (...limits: readonly string[]) =>
  sessionSettings({ session: [...settings, ...limits].join("\u001f") });

test("each setting has its name", () => {
  expect(read("0", "0", "30s", "30s")).toEqual({
    isolation: "read committed",
    read_only: "off",
    encoding: "UTF8",
    session_owner: "app",
    session_role: "none",
    row_security: "on",
    search_path: '"$user", public',
    schemas: "{pg_catalog,public}",
    limitsExceedByMs: Number.MAX_VALUE,
  });
});

test.each([
  ["0", "0", "30s", "30s", Number.MAX_VALUE],
  ["1d", "2h", "30s", "30s", 7_170_000],
  ["31min", "0", "30min", "30min", 60_000],
  ["", "", "", "", 0],
  ["30s", "0", "30s", "30s", 0],
  ["1d", "5s", "30s", "5s", 0],
  ["2 fortnights", "0", "30s", "30s", Number.NaN],
  ["29s", "0", "30s", "30s", -1_000],
  ["0", "1500ms", "30s", "30s", -28_500],
  ["5s", "59min", "5s", "1h", -60_000],
])(
  "limits of %s and %s, and %s and %s in their place",
  (idle, ofStatements, newIdle, newOfStatements, exceedBy) => {
    expect(read(idle, ofStatements, newIdle, newOfStatements)?.limitsExceedByMs).toBe(exceedBy);
  },
);

test("no column, and a name that contains the separator", () => {
  expect(sessionSettings(undefined)).toBeNull();
  expect(sessionSettings({ other: "text" })).toBeNull();
  expect(read("a", "0", "0", "30s", "30s")).toBeNull();
});
