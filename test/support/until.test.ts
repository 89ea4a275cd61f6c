import { glob, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { deferred, signal, until, within } from "./until.ts";

const root = join(import.meta.dirname, "../..");

describe("until", () => {
  it("resolves to the first truthy value", async () => {
    let looks = 0;
    expect(await until(() => (++looks === 3 ? "third" : undefined), { intervalMs: 1 })).toBe("third");
  });

  it("reports the condition that did not come true and the last value", async () => {
    const never = until(() => 0, { timeoutMs: 20, intervalMs: 5, what: "rows appear" });
    await expect(never).rejects.toThrow(/^not true within \d+ ms: rows appear \(last value: 0\)/);
  });

  it("reports a condition that never answers, too", async () => {
    const silent = new Promise<boolean>(() => {});
    const never = until(() => silent, { timeoutMs: 20, what: "it answers" });
    await expect(never).rejects.toThrow(/^not true within \d+ ms: it answers/);
  });

  it("keeps the last error as the cause", async () => {
    const refused = new Error("refused");
    const never = until(() => Promise.reject(refused), { timeoutMs: 20, intervalMs: 5 });
    await expect(never).rejects.toMatchObject({ cause: refused });
  });

  it("does not report an error that a later attempt did not have", async () => {
    let looks = 0;
    const condition = () => {
      if (++looks === 1) throw new Error("only once");
      return false;
    };
    await expect(until(condition, { timeoutMs: 20, intervalMs: 5 })).rejects.toMatchObject({
      cause: undefined,
    });
  });
});

describe("signals", () => {
  it("resolves for every waiter, before and after it is fired", async () => {
    const admitted = signal("admitted");
    const early = admitted.wait();
    expect(admitted.fired).toBe(false);
    admitted.fire();
    await early;
    await admitted.wait();
    expect(admitted.fired).toBe(true);
  });

  it("names the signal that was never fired", async () => {
    await expect(signal("admitted").wait(10)).rejects.toThrow(
      /^not settled within \d+ ms: signal "admitted"/,
    );
  });

  it("passes on results and failures that come in time", async () => {
    const done = deferred<number>();
    done.resolve(1);
    expect(await within(done.promise, "a number")).toBe(1);
    await expect(within(Promise.reject(new Error("no")), "a number")).rejects.toThrow("no");
  });
});

it("no test has a limit of its own, which a slow machine could reach", async () => {
  const own: string[] = [];
  for await (const file of glob(["test/**/*.test.ts", "packages/*/src/**/*.test.ts"], { cwd: root })) {
    if (file.includes("node_modules")) continue;
    const source = await readFile(join(root, file), "utf8");
    if (/\n\s*\},(?: |\n\s*)[\d_]{4,},?\n?\s*\);/u.test(source)) own.push(file);
  }
  expect(own).toEqual([]);
});
