/** The command as a process: what a shell sees, and what goes wrong outside it. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePort } from "../support/postgres-cluster.ts";
import { freshDatabase } from "../support/shared-postgres.ts";
import { sample } from "../support/thorough.ts";
import { callInDoubt, keyOf, latchkey, openPlace, type Place } from "./arrange.ts";

const repository = join(import.meta.dirname, "../..");
const main = join(repository, "packages/latchkey/src/cli/main.ts");

let place: Place;
beforeAll(async () => {
  place = await openPlace();
});
afterAll(() => place.close());

function command(url: string, ...args: readonly string[]) {
  return new Promise<{ code: number; stdout: string; stderr: string }>((resolve) => {
    const options = { cwd: repository, env: { ...process.env, DATABASE_URL: url } };
    execFile(process.execPath, [main, ...args], options, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

/** Runs a line in a shell, where `latchkey` is the command. */
function shell(url: string, line: string) {
  const prepared = `latchkey() { "$NODE" "$MAIN" "$@"; }; ${line}`;
  const env = { ...process.env, DATABASE_URL: url, NODE: process.execPath, MAIN: main };
  return new Promise<{ code: number; stdout: string }>((resolve) => {
    execFile("sh", ["-c", prepared], { cwd: repository, env }, (error, stdout) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout });
    });
  });
}

test("list, inspect, settle: one after the other, and the line that inspect prints can be pasted", async () => {
  const key = `it's "odd" $HOME`;
  await callInDoubt(place, keyOf(key));
  const listed = await command(place.url, "list", "--state", "unknown", "--json");
  expect(listed).toMatchObject({ code: 0, stderr: "" });
  expect(JSON.parse(listed.stdout).records).toMatchObject([{ key }]);

  const inspected = await command(place.url, "inspect", "account-1", "payments.charge", key);
  expect(inspected).toMatchObject({ code: 0, stderr: "" });
  const printed = /latchkey settle --not-executed .*/u.exec(inspected.stdout)?.[0] ?? "";
  const line = printed.replace("<you>", "ada").replace("<why>", "'Looked it up'");
  expect(await shell(place.url, line)).toMatchObject({ code: 0, stdout: expect.stringContaining("Settled") });
  expect(await place.store.settlement.audit(keyOf(key))).toMatchObject([{ actor: "ada" }]);

  expect((await shell(place.url, line)).code, "the same again").toBe(0);
  expect((await shell(place.url, line.replace("ada", "bob"))).code, "refused").toBe(4);
  expect((await command(place.url, "inspect", "account-1", "payments.charge", "never")).code).toBe(3);
  expect((await command(place.url, "settle")).code).toBe(2);
});

const commands: [name: string, args: string[]][] = [
  ["inspect", ["account-1", "payments.charge", "k"]],
  ["list", []],
  ["settle", ["0193e5a0-0000-7000-8000-000000000000", "--not-executed", "--operator", "a", "--reason", "b"]],
];
describe.each(sample(commands, 1))("%s", (name, args) => {
  test("without Latchkey's tables it prints what to do", async () => {
    const empty = await freshDatabase();
    const { code, stdout, stderr } = await command(empty.url, name, ...args);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toContain("latchkey migrate");
    await empty.drop();
  });

  test("another schema is another place", async () => {
    const { exitCode, errors } = await latchkey(place.url, name, ...args, "--schema", "elsewhere");
    expect({ exitCode, errors }).toEqual({
      exitCode: 1,
      errors: expect.stringContaining("latchkey migrate"),
    });
  });

  test("a database that cannot be reached is reported plainly", async () => {
    const url = `postgres://nobody@127.0.0.1:${await freePort()}/none`;
    const { code, stdout, stderr } = await command(url, name, ...args);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toContain("ECONNREFUSED");
    expect(stderr, "no stack").not.toMatch(/^\s+at /mu);
  });

  test("its help names its exit codes", async () => {
    const { code, stdout } = await command("", name, "--help");
    expect(code).toBe(0);
    expect(stdout).toContain("Exit codes: 0 done");
  });
});
