/** Every problem there is, on the wire, through every adapter and under every policy. */
import {
  acp,
  createLatchkey,
  ietf,
  type Policy,
  type ProblemCode,
  type Result,
  StoreError,
  stripe,
  ucp,
} from "latchkey";
import { memoryStore } from "latchkey/memory";
import { describe, expect, test } from "vitest";
import { problemTypes } from "../../packages/latchkey/src/http/protocol/problem-types.ts";
import type { AppUnderTest } from "../../packages/latchkey-conformance/src/http-conformance/case.ts";
import { type HttpCall, send } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { recordedExpress } from "../registry/frameworks/express/suite.ts";
import { problemFaults } from "../support/problem-rules.ts";
import { problemSchema } from "../vectors/problem-schema.ts";
import { apps } from "./apps.ts";
import type { SuiteApp } from "./suite-app.ts";

/** What makes a request end in the problem: what is sent, or what its execution says. */
type Provocation = { readonly call: HttpCall } | { readonly execution: Result | Error };

const provocations: Readonly<Record<Exclude<ProblemCode, "answer-not-stored">, Provocation>> = {
  "missing-key": { call: { key: null } },
  "invalid-key": { call: { key: "k".repeat(256) } },
  "payload-too-large": { call: { body: JSON.stringify({ note: "x".repeat(200) }) } },
  "request-too-old": { call: { headers: [["Repeatability-First-Sent", "Sun, 06 Nov 1994 08:49:37 GMT"]] } },
  "invalid-request-date": { call: { headers: [["Repeatability-First-Sent", "yesterday"]] } },
  "key-misuse": { execution: { kind: "key_misuse", because: "fingerprint" } },
  "in-progress": { execution: { kind: "in_progress", recordId: "r", retryAfterMs: 1 } },
  "outcome-unknown": { execution: { kind: "unknown", recordId: "r", retryAfterMs: 1 } },
  "commit-in-doubt": { execution: { kind: "commit_in_doubt", retryAfterMs: 1 } },
  timeout: { execution: { kind: "timeout", recordId: "r" } },
  expired: { execution: { kind: "expired" } },
  "too-many-keys": { execution: { kind: "too_many_keys", because: "newKeys", retryAfterMs: 1 } },
  "not-found": {
    call: { method: "GET", target: "/operations/none", key: null, body: "", contentType: null },
  },
  "store-unavailable": { execution: new StoreError("not_sent") },
};
/** Those that the contract's table gives the header `Retry-After`. */
const comeBack = ["in-progress", "outcome-unknown", "commit-in-doubt", "too-many-keys", "store-unavailable"];

const schema = problemSchema();

const all = [...apps, recordedExpress].flatMap((framework) =>
  [ietf, stripe, acp, ucp].map((policy) => ({
    framework,
    name: framework.name,
    policy,
    practice: policy.name,
  })),
);

function appOf(policy: Policy, given: { execution: Result | Error | null }): AppUnderTest<unknown> {
  const real = createLatchkey<unknown>({ store: memoryStore(), policy });
  const execute: typeof real.execute = (operation, submission, work) => {
    const { execution } = given;
    if (execution instanceof Error) return Promise.reject(execution);
    return execution === null ? real.execute(operation, submission, work) : Promise.resolve(execution);
  };
  const operation = real.operation("run", { execution: "lease", key: "required", answerLimitBytes: 10 });
  return {
    latchkey: { ...real, execute },
    settings: {
      key: { minLength: 1 },
      bodyLimitBytes: 100,
      requestAge: { maxMs: 60_000 },
      statusPath: "/operations",
    },
    tenant: (header) => header("x-tenant") ?? null,
    principal: () => null,
    route: {
      method: "POST",
      path: "/run",
      execution: "lease",
      operation,
      handle: async () => ({ status: 200, body: "larger than is kept" }),
    },
  };
}

describe.each(all)("$name under $practice", ({ framework, policy }) => {
  test("answers every problem as its rules and its schema ask for", async () => {
    const { serve }: SuiteApp = framework;
    const given: { execution: Result | Error | null } = { execution: null };
    const server = await serve(appOf(policy, given));
    const faults: Record<string, readonly string[]> = {};
    for (const [name, provocation] of Object.entries(provocations)) {
      const code = name as keyof typeof provocations;
      given.execution = "execution" in provocation ? provocation.execution : null;
      const answer = await send(server.url, "call" in provocation ? provocation.call : {});
      const { status } = answer;
      const media = answer.header("content-type");
      const problem = answer.json();
      const wanted = policy.statuses[code] ?? problemTypes[code].status;
      const retryAfter = answer.header("retry-after");
      const isStandard = policy.problemForm === "rfc9457";
      const wantedMedia = isStandard ? "application/problem+json" : "application/json";
      faults[code] = [
        ...problemFaults(problem, { status, code, policy }),
        ...(isStandard ? (schema?.(problem) ?? []) : []),
        ...(status === wanted ? [] : [`status ${status}`]),
        ...(media === wantedMedia ? [] : [`content type ${media}`]),
        ...(answer.header("cache-control") === "no-store" ? [] : ["it may be cached"]),
        ...(/^<https:[^>]+>; rel="describedby"$/u.test(answer.header("link") ?? "") ? [] : ["no link"]),
        ...((comeBack.includes(code) ? "1" : null) === retryAfter ? [] : [`Retry-After ${retryAfter}`]),
        ...((answer.header("x-should-retry") === null) === !policy.shouldRetryHeaders
          ? []
          : ["should retry"]),
      ];
    }
    await server.close();
    expect(faults).toEqual(Object.fromEntries(Object.keys(provocations).map((code) => [code, []])));
  });

  test("answers for an answer that was not kept with its status, and no problem body", async () => {
    const server = await framework.serve(appOf(policy, { execution: null }));
    const call = { key: "k" };
    expect((await send(server.url, call)).body.toString()).toBe("larger than is kept");
    const replay = await send(server.url, call);
    await server.close();
    expect([replay.status, replay.body.byteLength]).toEqual([200, 0]);
    expect(replay.header("idempotency-status")).toBe("answer-not-stored");
    expect(replay.header("content-type")).not.toBe("application/problem+json");
    expect(replay.header("x-should-retry")).toBe(policy.shouldRetryHeaders ? "false" : null);
  });
});
