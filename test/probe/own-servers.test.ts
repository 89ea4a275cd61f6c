/** The probe makes every check on Latchkey's own front ends, and finds nothing. */
import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { acp } from "../../packages/latchkey/src/operations/policies/acp.ts";
import { ietf } from "../../packages/latchkey/src/operations/policies/ietf.ts";
import type { Policy } from "../../packages/latchkey/src/operations/policies/policy.ts";
import { stripe } from "../../packages/latchkey/src/operations/policies/stripe.ts";
import { ucp } from "../../packages/latchkey/src/operations/policies/ucp.ts";
import { arrange } from "../../packages/latchkey-conformance/src/http-conformance/arrange.ts";
import type {
  HandlerAnswer,
  HandlerContextUnderTest,
} from "../../packages/latchkey-conformance/src/http-conformance/case.ts";
import type { Report } from "../../packages/latchkey-probe/src/report/report.ts";
import { apps } from "../http/apps.ts";
import type { SuiteApp } from "../http/suite-app.ts";
import { frameworks } from "../registry/frameworks.ts";
import { startFixture } from "../support/fixture.ts";
import { memorySubject } from "../support/memory-subject.ts";
import { scratchDirectory } from "../support/scratch.ts";
import { isThorough } from "../support/thorough.ts";
import { checksWith, faultsOf, probeOne } from "./arrange.ts";

const tenants = ["--header", "X-Tenant: one", "--other-header", "X-Tenant: two"];

async function handle({ readBody, write }: HandlerContextUnderTest): Promise<HandlerAnswer> {
  const sent: unknown = JSON.parse(Buffer.from(await readBody()).toString("utf8"));
  const id = randomUUID();
  await write(id);
  const headers = [["Content-Type", "application/json"]] as const;
  const fails = typeof sent === "object" && sent !== null && "fail" in sent;
  if (fails) return { status: 500, headers, body: JSON.stringify({ failure: id }) };
  return {
    status: 201,
    headers: [...headers, ["Location", `/run/${id}`]],
    body: JSON.stringify({ id, sent }),
  };
}

async function probe(
  framework: SuiteApp,
  execution: "transaction" | "lease",
  policy: Policy,
): Promise<Report> {
  const { app } = arrange(memorySubject(), { execution, policy, handle }, 0);
  const server = await framework.serve(app);
  const failing = ["--failing-body", '{"amount":1,"fail":true}'];
  try {
    return await probeOne(`${server.url}/run`, [...tenants, ...failing, "--profile", policy.name]);
  } finally {
    await server.close();
  }
}

function expectNothing(report: Report): void {
  expect(faultsOf(report)).toEqual([]);
  expect(checksWith(report, "inconclusive")).toEqual([]);
  expect(checksWith(report, "skipped")).toEqual(["other-route: there is only one route"]);
  expect(report.summary.unjudgedTargets).toBe(0);
}

const chosen = apps.filter(({ oneOfItsKind }) => isThorough || oneOfItsKind);

describe.each(chosen)("$name", (framework) => {
  test("under a transaction has no fault", async () => {
    expectNothing(await probe(framework, "transaction", ietf));
  });
  test("under a lease has no fault", async () => {
    expectNothing(await probe(framework, "lease", ietf));
  });
});

const [first] = apps;
test.each([stripe, acp, ucp])(
  "the policy $name has no fault in the profile of the same name",
  async (policy) => {
    if (first === undefined) throw new Error("no framework");
    expectNothing(await probe(first, "transaction", policy));
  },
);

const places = isThorough
  ? frameworks.flatMap(({ name: http }) => [
      { http, store: "memory" },
      { http, store: "pglite" },
    ])
  : [{ http: "express", store: "pglite" }];

test.each(places)(
  "a whole service on $http and $store has no fault, by the count of its orders",
  async (place) => {
    const fixture = await startFixture({ ...place, args: ["--data", scratchDirectory("us")] });
    const url = `http://127.0.0.1:${fixture.port}`;
    const failing = ["--failing-url", `${url}/orders?then=500`];
    const args = [...tenants, ...failing, "--count", `${url}/ledger`, "--body", '{"item":"book","amount":1}'];
    expectNothing(await probeOne(`${url}/orders`, args));
  },
);
