import { afterEach, describe, expect, test } from "vitest";
import { faultTable } from "../../packages/latchkey-probe/src/faults.ts";
import { sample } from "../support/thorough.ts";
import { checksWith, faultsOf, probeWhole } from "./arrange.ts";
import { rightBehaviour, serve, type TestServer } from "./server.ts";
import { acpBehaviour, failing, stripeBehaviour, wrongServers } from "./wrong.ts";

const servers: TestServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

async function started(behaviour = {}): Promise<TestServer> {
  const server = await serve({ ...rightBehaviour(), ...behaviour });
  servers.push(server);
  return server;
}

describe("a correct server", () => {
  const counted = ["--count", "{url}/effects", "--count-pointer", "/effects"];
  test.each([
    ["by the draft of the IETF", {}, []],
    ["by the draft of the IETF, with a count", {}, counted],
    ["by Stripe's practice", stripeBehaviour, ["--profile", "stripe"]],
    ["by ACP", acpBehaviour, ["--profile", "acp"]],
    ["by UCP", rightBehaviour(409), ["--profile", "ucp"]],
    ["by other statuses that the operator expects", rightBehaviour(409), ["--expect", "misuse=409"]],
  ])("%s has no fault, and every check was made", async (_, behaviour, args) => {
    const { url } = await started(behaviour);
    const report = await probeWhole(url, [...failing, ...args]);
    expect(faultsOf(report)).toEqual([]);
    expect(checksWith(report, "inconclusive")).toEqual([]);
    expect(checksWith(report, "skipped")).toEqual([]);
    expect(report.code).toBe(0);
  });
});

describe("a server that", () => {
  test.each(sample(wrongServers, 18))(
    "$name is reported, and for nothing else",
    async ({ behaviour, finds, args = [] }) => {
      const { url } = await started(behaviour);
      const report = await probeWhole(url, args);
      expect(faultsOf(report)).toEqual([...finds].sort());
      expect(report.code).toBe(1);
    },
  );
});

test("every fault is reported on a server that has it", () => {
  const found = new Set(wrongServers.flatMap(({ finds }) => finds));
  expect(Object.keys(faultTable).filter((code) => !found.has(code as never))).toEqual([]);
});
