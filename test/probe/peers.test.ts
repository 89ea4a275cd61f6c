/** What the probe finds on servers that stand on other people's packages, in the versions of package.json. */
import { expect, test, vi } from "vitest";
import type { Report } from "../../packages/latchkey-probe/src/report/report.ts";
import { listen } from "../support/listen.ts";
import { anyRedis } from "../support/private-redis.ts";
import { faultsOf, probeOne } from "./arrange.ts";
import {
  expressIdempotencyInMemory,
  expressIdempotencyOnRedis,
  nodeIdempotency,
  type PeerServer,
  powertools,
} from "./peers.ts";

const redisUrl = await anyRedis();

async function probe({ app, close }: PeerServer): Promise<Report> {
  const server = await listen(app);
  try {
    return await probeOne(`${server.url}/orders`, []);
  } finally {
    await server.close();
    await close();
  }
}

test("express-idempotency: another caller's answers, lost headers, keys of any form", async () => {
  const report = await probe(await expressIdempotencyInMemory());
  expect(faultsOf(report)).toEqual([
    "empty-key-accepted",
    "malformed-key-accepted",
    "missing-key-accepted",
    "misuse-status",
    "replay-headers",
    "tenant-leak",
  ]);
});

test.runIf(redisUrl)("express-idempotency-redis-adapter: the same on Redis", async () => {
  const report = await probe(await expressIdempotencyOnRedis(redisUrl ?? ""));
  expect(faultsOf(report)).toEqual(
    expect.arrayContaining(["misuse-status", "replay-headers", "tenant-leak"]),
  );
});

test("@node-idempotency/core: another caller's answers, lost headers, keys of any form", async () => {
  const report = await probe(await nodeIdempotency());
  expect(faultsOf(report)).toEqual([
    "empty-key-accepted",
    "malformed-key-accepted",
    "missing-key-accepted",
    "replay-headers",
    "tenant-leak",
  ]);
});

test.runIf(redisUrl)(
  "@aws-lambda-powertools/idempotency: another caller's, and another body's answers",
  async () => {
    // Outside Lambda it warns with every request that it does not know the time left.
    vi.spyOn(console, "warn").mockImplementation(() => {});
    const report = await probe(await powertools(redisUrl ?? ""));
    vi.restoreAllMocks();
    expect(faultsOf(report)).toEqual(expect.arrayContaining(["misuse-replayed", "tenant-leak"]));
  },
);
