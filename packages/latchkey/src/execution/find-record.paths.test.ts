/** Naming records of keys that are unique to a path. */
import { describe, expect, test } from "vitest";
import { fetchServe } from "../http/fetch/fetch.ts";
import { createLatchkey } from "../latchkey.ts";
import { createOperator } from "../operator/operator.ts";
import { memoryStore } from "../stores/memory.ts";

const secret = "a-secret-of-more-than-thirty-two-characters";
const longPath = `/items/${"x".repeat(300)}`;

/** A served operation whose one call is in doubt after each request. */
function world(keySecret?: string) {
  const latchkey = createLatchkey({ store: memoryStore(), ...(keySecret ? { keySecret } : {}) });
  const seen: { recordId: string; downstreamKey: string }[] = [];
  const lost = latchkey.effect("lost", {
    deduplication: "none",
    execute: async (recordId: string, { key }): Promise<unknown> => {
      seen.push({ recordId, downstreamKey: key });
      return Promise.reject(new Error("socket hang up"));
    },
  });
  const operation = latchkey.operation("refund", {
    execution: "lease",
    version: "1",
    keyScope: "path",
    run: async (_: null, attempt) => ({ body: await attempt.call("refunded", lost, attempt.id) }),
  });
  const serve = fetchServe(latchkey, { tenant: () => "t" })(operation, () => null);
  const send = async (path: string, key = "k") => {
    const headers = { "Idempotency-Key": key };
    const answer = await serve(new Request(`https://shop.example${path}`, { method: "POST", headers }));
    expect(answer.status).toBe(409);
    return seen.at(-1) ?? expect.fail();
  };
  return { latchkey, operator: createOperator({ latchkey }), send };
}

const named = { tenant: "t", operation: "refund", key: "k" };
const happened = { call: "refunded", result: 1 };

describe.each([undefined, secret])("under `keyScope: path` (keySecret %s) a settlement", (keySecret) => {
  test.each<(ids: { recordId: string; downstreamKey: string }) => object>([
    ({ recordId }) => ({ ...named, recordId }),
    ({ downstreamKey }) => ({ ...named, downstreamKey }),
    (ids) => ({ ...named, ...ids }),
    ({ recordId }) => ({ ...named, key: '"k"', recordId }),
    ({ downstreamKey }) => ({ ...named, downstreamKey, path: "/items/1" }),
    ({ recordId }) => ({ ...named, recordId, path: "/items/1/?page=2" }),
    ({ recordId }) => ({ recordId }),
  ])("finds the record that it names (%#)", async (target) => {
    const { latchkey, send } = world(keySecret);
    const first = await send("/items/1");
    await send("/items/2");
    expect(await latchkey.settle(target(first) as never, happened)).toEqual({
      kind: "settled",
      recordId: first.recordId,
    });
  });

  test("with another key, path, operation or tenant than its record's changes nothing", async () => {
    const { latchkey, send } = world(keySecret);
    const first = await send("/items/1");
    const other = await send("/items/2");
    for (const wrong of [{ key: "other" }, { operation: "refunds" }, { tenant: "u" }, { path: "/items/3" }]) {
      for (const { recordId, downstreamKey } of [first]) {
        const target = { ...named, ...wrong };
        expect(await latchkey.settle({ ...target, recordId }, happened)).toEqual({ kind: "not_found" });
        expect(await latchkey.settle({ ...target, downstreamKey }, happened)).toEqual({ kind: "not_found" });
      }
    }
    const elsewhere = { ...named, path: "/items/2", recordId: first.recordId };
    expect(await latchkey.settle(elsewhere, happened)).toEqual({
      kind: "other_life",
      recordId: other.recordId,
    });
  });

  test("a path without a key is a mistake", async () => {
    const { latchkey, send } = world(keySecret);
    const { recordId } = await send("/items/1");
    await expect(latchkey.settle({ recordId, path: "/items/1" } as never, happened)).rejects.toThrow("`key`");
  });

  test.each(["/items/1", longPath, "/items/%7Ea"])(
    "an operator finds it by key and path %s",
    async (path) => {
      const { operator, send } = world(keySecret);
      const { recordId } = await send(path);
      await send("/items/another");
      expect(await operator.inspect({ ...named, path })).toMatchObject({
        kind: "record",
        report: { id: recordId },
      });
      expect(await operator.inspect({ ...named, path: "/items/none" })).toEqual({ kind: "not_found" });
      expect(await operator.inspect(named)).toEqual({ kind: "not_found" });
    },
  );
});
