import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { UntilOver } from "./until-over.ts";

test("what came first, and once it is over, that", async () => {
  const over = Promise.withResolvers<"over">();
  const until = new UntilOver(over.promise);
  expect(await until.or(Promise.resolve(1))).toBe(1);
  await expect(until.or(Promise.reject(new Error("no")))).rejects.toThrow("no");
  const late = Promise.withResolvers<number>();
  const waiting = until.or(late.promise);
  over.resolve("over");
  expect(await waiting).toBe("over");
  expect(await until.or(late.promise)).toBe("over");
  late.reject(new Error("nobody's"));
});

test("what has been read is not kept while it is not over", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const pending = Promise.withResolvers<"over">();
  const until = new UntilOver(pending.promise);
  const read = async () => new WeakRef((await until.or(Promise.resolve({ record: 1 }))) as object);
  const records = await Promise.all(Array.from({ length: 100 }, read));
  await new Promise((resolve) => setImmediate(resolve));
  collect();
  expect(records.filter((one) => one.deref() !== undefined).length).toBeLessThan(10);
  pending.resolve("over");
});
