import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type FreshDatabase, freshDatabase } from "../../../../test/support/shared-postgres.ts";
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
  test.each([[["--help"]], [["help"]], [["-h"]]])("%j lists the commands", async (args) => {
    const { exitCode, out } = await latchkey(args);
    expect(exitCode).toBe(0);
    expect(out).toContain("migrate");
  });

  test("without a command it lists them, and says that this was wrong", async () => {
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

  test("creates the tables once, and says so", async () => {
    const first = await latchkey(["migrate"], url);
    expect(first).toEqual({
      exitCode: 0,
      out: 'Schema "latchkey" is at version 2 now: applied 0001_records, 0002_messages.',
      errors: "",
    });
    const again = await latchkey(["migrate"], url);
    expect(again).toMatchObject({ exitCode: 0, out: 'Schema "latchkey" is at version 2 already.' });
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
      applied: ["0001_records", "0002_messages"],
      version: 2,
    });
  });

  test("prints SQL that does the same, without a database", async () => {
    const { exitCode, out } = await latchkey(["migrate", "--sql", "--schema", "pasted"]);
    expect(exitCode).toBe(0);
    const pool = new pg.Pool({ connectionString: database.url });
    await pool.query(out);
    await postgresStore({ pool, schema: "pasted" }).verify();
    await pool.end();
    expect((await latchkey(["migrate", "--schema", "pasted"], url)).out).toContain("already");
  });

  test("a database that refuses is said plainly", async () => {
    const { exitCode, errors } = await latchkey(["migrate"], { DATABASE_URL: "postgres://x@127.0.0.1:1/x" });
    expect(exitCode).toBe(1);
    expect(errors).toContain("ECONNREFUSED");
  });

  test("a project without pg is told what to do", async () => {
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
