import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type FreshDatabase, freshDatabase } from "../../../../test/support/shared-postgres.ts";
import manifest from "../../package.json" with { type: "json" };
import { postgresStore } from "../stores/postgres.ts";
import { run } from "./run.ts";

const repository = join(import.meta.dirname, "../../../..");

async function latchkey(args: readonly string[], env: Record<string, string> = {}, cwd = repository) {
  const out: string[] = [];
  const errors: string[] = [];
  const exitCode = await run({
    args,
    env,
    cwd,
    print: (text) => out.push(text),
    complain: (text) => errors.push(text),
  });
  return { exitCode, out: out.join("\n"), errors: errors.join("\n") };
}

describe("the command line", () => {
  test("inspect by a key's hash from a log names what to use instead", async () => {
    const { exitCode, errors } = await latchkey(["inspect", "0f3a5c7e9b1d"]);
    expect(exitCode).toBe(2);
    expect(errors).toContain("`recordId` of the same event");
  });

  test.each([[["--help"]], [["help"]], [["-h"]]])("%j lists the commands", async (args) => {
    const { exitCode, out } = await latchkey(args);
    expect(exitCode).toBe(0);
    expect(out).toContain("migrate");
  });

  test("without a command it lists them, with exit code 2", async () => {
    expect(await latchkey([])).toMatchObject({
      exitCode: 2,
      out: expect.stringContaining("Usage: latchkey"),
    });
    const unknown = await latchkey(["migrat"]);
    expect(unknown).toMatchObject({ exitCode: 2, errors: expect.stringContaining('no command "migrat"') });
  });

  test("each command has its own help", async () => {
    expect(await latchkey(["migrate", "--help"])).toMatchObject({
      exitCode: 0,
      out: expect.stringContaining("--database-url"),
    });
  });
});

describe("text from others", () => {
  const steering = "\u001b]0;pwn\u0007\u001b[2J\u009b1m\u202e\r";
  // Characters that a terminal might obey.
  const obeyed = /[\p{Cf}\p{Zl}\p{Zp}]|(?!\n)\p{Cc}/u;

  test.each([
    [["zz".concat(steering)]],
    [["list", `--x${steering}`]],
    [["list", "--schema", `a${steering}`]],
    [["list", `extra${steering}`]],
    [["inspect", steering]],
    [["settle", "t", "o", "k", "--completed", steering, "--operator", "o", "--reason", "r"]],
    [["settle", "t", "o", "k", "--completed", `@${steering}`, "--operator", "o", "--reason", "r"]],
    [["worker", "--config", `no-such${steering}.ts`]],
    [["migrate", "--database-url", steering]],
    [["migrate", "--database-url", "postgres://127.0.0.1:1/".concat(encodeURIComponent(steering))]],
  ])("is escaped wherever it is printed: %j", async (args) => {
    const { exitCode, out, errors } = await latchkey(args);
    expect(exitCode).toBeGreaterThan(0);
    expect(errors).not.toBe("");
    expect(obeyed.test(out + errors)).toBe(false);
  });
});

test.each([["--version"], ["-v"]])("%s prints the version", async (arg) => {
  expect(await latchkey([arg])).toEqual({ exitCode: 0, out: manifest.version, errors: "" });
});

test.each([
  ["migrate", {}, "No database is named: set DATABASE_URL"],
  ["list", {}, "No database is named: set DATABASE_URL"],
  ["migrate", { DATABASE_URL: "" }, "No database is named"],
  ["migrate", { DATABASE_URL: "localhost:5432/secret" }, "URL is malformed"],
  ["migrate", { DATABASE_URL: "postgres://u:secret@host:no/x" }, "URL is malformed"],
  ["migrate", { DATABASE_URL: "postgres://u:secret@127.0.0.1:1/x" }, "cannot be reached"],
])("%s with %j reports what is wrong with the database's name", async (command, env, message) => {
  const { exitCode, errors } = await latchkey([command], env);
  expect(exitCode).toBeGreaterThan(0);
  expect(errors).toContain(message);
  expect(errors).not.toContain("secret");
});

describe("migrate", () => {
  let database: FreshDatabase;
  let url: Record<string, string>;

  beforeAll(async () => {
    database = await freshDatabase();
    url = { DATABASE_URL: database.url };
  });
  afterAll(() => database.drop());

  test.each([
    [["--sq"]],
    [["extra"]],
    [["--schema", "No"]],
    [["--schema"]],
    [["--after", "1"]],
    [["--sql", "--after", "x"]],
    [["--sql", "--json"]],
  ])("%j is called wrongly", async (args) => {
    const { exitCode, errors, out } = await latchkey(["migrate", ...args], url);
    expect(exitCode).toBe(2);
    expect(errors).toContain("Usage: latchkey migrate");
    expect(out).toBe("");
  });

  test("creates the tables once, and reports it", async () => {
    const first = await latchkey(["migrate"], url);
    expect(first).toEqual({
      exitCode: 0,
      out: 'Schema "latchkey" is now at version 8: applied 0001_records, 0002_messages, 0003_names, 0004_audit_age, 0005_summaries, 0006_traces, 0007_facts, 0008_short_check.',
      errors: "",
    });
    const again = await latchkey(["migrate"], url);
    expect(again).toMatchObject({ exitCode: 0, out: 'Schema "latchkey" is already at version 8.' });
    const pool = new pg.Pool({ connectionString: database.url });
    await postgresStore({ pool }).verify();
    await pool.end();
  });

  test("takes the database and the schema from options, and answers in JSON", async () => {
    const args = ["migrate", "--database-url", database.url, "--schema", "other", "--json"];
    const { exitCode, out } = await latchkey(args, { DATABASE_URL: "postgres://nobody@127.0.0.1:1/none" });
    expect(exitCode).toBe(0);
    expect(JSON.parse(out)).toEqual({
      schema: "other",
      applied: [
        "0001_records",
        "0002_messages",
        "0003_names",
        "0004_audit_age",
        "0005_summaries",
        "0006_traces",
        "0007_facts",
        "0008_short_check",
      ],
      version: 8,
    });
  });

  test("prints the same SQL without a database", async () => {
    const { exitCode, out } = await latchkey(["migrate", "--sql", "--schema", "pasted"]);
    expect(exitCode).toBe(0);
    const pool = new pg.Pool({ connectionString: database.url });
    await pool.query(out);
    await postgresStore({ pool, schema: "pasted" }).verify();
    await pool.end();
    expect((await latchkey(["migrate", "--schema", "pasted"], url)).out).toContain("already");
  });

  test("a refused connection is reported plainly", async () => {
    const { exitCode, errors } = await latchkey(["migrate"], { DATABASE_URL: "postgres://x@127.0.0.1:1/x" });
    expect(exitCode).toBe(1);
    expect(errors).toContain("ECONNREFUSED");
  });

  test("in a project without pg, the error says what to do", async () => {
    const empty = mkdtempSync(join(tmpdir(), "latchkey-cli-"));
    try {
      const { exitCode, errors } = await latchkey(["migrate"], url, empty);
      expect(exitCode).toBe(1);
      expect(errors).toContain("npm install pg");
      expect(errors).toContain("latchkey migrate --sql");
    } finally {
      rmSync(empty, { recursive: true });
    }
  });
});
