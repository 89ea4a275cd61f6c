import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { systemPorts } from "../../ports.ts";
import { lockDirectory, lockFileName, type ReleaseLock } from "./directory-lock.ts";
import { ownIdentity, type ProcessIdentity } from "./process-identity.ts";

const { random } = systemPorts;
let directory: string;
let path: string;
const releases: ReleaseLock[] = [];

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "latchkey-lock-"));
  path = join(directory, lockFileName);
});

afterEach(() => {
  for (const release of releases.splice(0)) release();
  rmSync(directory, { recursive: true });
});

function lock(): ReleaseLock {
  const release = lockDirectory(directory, random);
  releases.push(release);
  return release;
}

/** The lock file of a process that is not this one. */
function leave(file: string, identity: Partial<ProcessIdentity>): string {
  const token = random.token();
  writeFileSync(file, JSON.stringify({ ...ownIdentity(), ...identity, token }));
  return token;
}

function deadPid(): number {
  return spawnSync(process.execPath, ["-e", ""]).pid;
}

const refusal = expect.objectContaining({ code: "data-directory-locked" });

describe("lockDirectory", () => {
  test("one holder at a time, also within one process; free again after release", () => {
    const release = lock();
    expect(() => lock()).toThrow(refusal);
    expect(() => lock()).toThrow(/held by this process/);
    release();
    release();
    expect(readdirSync(directory)).toEqual([]);
    lock();
  });

  test("a dead holder is cleared away, and nothing of it is left", () => {
    leave(path, { pid: deadPid() });
    lock();
    expect(JSON.parse(readFileSync(path, "utf8"))).toMatchObject({ pid: process.pid });
    expect(readdirSync(directory)).toEqual([lockFileName]);
  });

  test("a later process with the id of a dead holder is not taken for it", () => {
    leave(path, { started: "long ago" });
    lock();
  });

  test("a living holder stays", () => {
    const before = leave(path, { pid: process.ppid, started: null });
    expect(() => lock()).toThrow(refusal);
    expect(() => lock()).toThrow(`process ${process.ppid}.`);
    expect(JSON.parse(readFileSync(path, "utf8")).token).toBe(before);
  });

  test("a holder that cannot be looked up from here stays, even if its id is free here", () => {
    leave(path, { pid: deadPid(), place: "another-container pid:[1]" });
    expect(() => lock()).toThrow(refusal);
    expect(() => lock()).toThrow(/another-container.*cannot be seen from here.*delete the file/);
  });

  test.each(["", "{", "null", '{"pid":1}'])("a file that says %j, perhaps half written, stays", (text) => {
    writeFileSync(path, text);
    expect(() => lock()).toThrow(refusal);
    expect(readFileSync(path, "utf8")).toBe(text);
  });

  test("a token that is no token never becomes part of a path", () => {
    writeFileSync(path, JSON.stringify({ ...ownIdentity(), pid: deadPid(), token: "/../../x" }));
    expect(() => lock()).toThrow(refusal);
  });

  test("giving back does not remove what somebody else has put there", () => {
    const release = lock();
    const other = leave(path, {});
    release();
    expect(JSON.parse(readFileSync(path, "utf8")).token).toBe(other);
  });

  test("while somebody living clears a dead holder away, nobody else does", () => {
    const dead = leave(path, { pid: deadPid() });
    leave(`${path}.${dead}`, { pid: process.ppid, started: null });
    expect(() => lock()).toThrow(refusal);
    expect(JSON.parse(readFileSync(path, "utf8")).token).toBe(dead);
  });

  test("who died while clearing a dead holder away is cleared away too", () => {
    const dead = leave(path, { pid: deadPid() });
    const remover = leave(`${path}.${dead}`, { pid: deadPid() });
    leave(`${path}.${dead}.${remover}`, { pid: deadPid() });
    lock();
    expect(readdirSync(directory)).toEqual([lockFileName]);
  });

  test("a folder that is not there is an error of its own", () => {
    expect(() => lockDirectory(join(directory, "missing"), random)).toThrow(/ENOENT/);
  });
});
