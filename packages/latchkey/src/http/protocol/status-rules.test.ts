import { describe, expect, test } from "vitest";
import { createLatchkey } from "../../latchkey.ts";
import { stripe } from "../../operations/policies/stripe.ts";
import { memoryStore } from "../../stores/memory.ts";
import { resolveHttpOptions } from "./http-options.ts";
import { resolveRoute } from "./route.ts";
import { createServing } from "./serving.ts";

const single = { singleTenant: true } as const;
const resolve = (options: object) => resolveHttpOptions({ ...single, ...options }).rules;

function route(execution: "transaction" | "lease", options: object) {
  const latchkey = createLatchkey({ store: memoryStore(), policy: stripe });
  return resolveRoute(latchkey, { ...single, ...options }, latchkey.operation("run", { execution })).route;
}

describe("statusPath", () => {
  test.each(["/operations", "/v1/my-operations", "/v1.2/operations~1", "/a%20b"])(
    "may be %s",
    (statusPath) => {
      expect(resolve({ statusPath }).statusPath).toBe(statusPath);
    },
  );

  test.each([
    "",
    "/",
    "operations",
    "/operations/",
    "//operations",
    "/operations/:id",
    "/operations?a",
    "/a b",
    "/a\r\nb",
    7,
  ])("may not be %j", (statusPath) => {
    expect(() => resolve({ statusPath })).toThrow(/statusPath: .* is not a path/u);
  });

  test("has no default, so a deferred operation requires it", () => {
    expect(resolve({}).statusPath).toBeNull();
    const latchkey = createLatchkey({ store: memoryStore() });
    const run = async () => ({ status: 201 });
    const report = latchkey.operation("report", { execution: "deferred", version: "1", run });
    expect(() => createServing(latchkey, single)(report)).toThrow(/Operation report is deferred/u);
    createServing(latchkey, { ...single, statusPath: "/operations" })(report);
    createServing(latchkey, single)(report, { statusPath: "/operations" });
  });
});

describe("inProgress", () => {
  test("is 202, 409 or 429", () => {
    expect(resolve({}).inProgress).toBeNull();
    expect(resolve({ inProgress: 429 }).inProgress).toBe(429);
    for (const inProgress of [200, 423, "202", true])
      expect(() => resolve({ inProgress })).toThrow(TypeError);
  });

  test("202 needs a status resource, and a record that exists before the work ends", () => {
    const statusPath = "/operations";
    expect(() => route("lease", { inProgress: 202 })).toThrow(/needs statusPath/u);
    expect(() => route("transaction", { inProgress: 202, statusPath })).toThrow(/in a transaction/u);
    expect(route("lease", { inProgress: 202, statusPath }).rules.inProgress).toBe(202);
  });

  test("is the status of one problem, under every policy", () => {
    const statuses = (options: object) => route("transaction", options).policy.statuses;
    expect(statuses({ inProgress: 429 })).toEqual({ "key-misuse": 400, "in-progress": 429 });
    expect(statuses({ inProgress: 409 })).toEqual({ "key-misuse": 400, "in-progress": 409 });
    expect(statuses({})).toEqual({ "key-misuse": 400 });
  });
});
