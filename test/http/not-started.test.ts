/** What fails in an adapter after a key was reserved and before the handler is called: nothing was executed, the key is free. */
import { afterEach, expect, test } from "vitest";
import { newKey, send } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { smallServices } from "../registry/frameworks.ts";
import { httpService } from "../support/http-service.ts";
import { listen } from "../support/listen.ts";

const adapters = (await smallServices()).flatMap(({ notStarted }) => Object.entries(notStarted));

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

test.each(adapters)("%s: the key is free again under a lease", async (_name, make) => {
  const service = httpService();
  let runs = 0;
  const { url, close } = await listen(await make(service, () => void runs++));
  closing.push(close);
  const key = newKey();
  const failed = await send(url, { key, headers: [["X-Broken", "1"]] });
  expect([failed.status, runs]).toEqual([500, 0]);
  expect(service.events.map(({ type }) => type)).toEqual(["reserved", "attempt_failed", "released"]);
  for (const replayed of [null, "true"]) {
    const retry = await send(url, { key });
    expect([retry.status, retry.header("idempotent-replayed")]).toEqual([201, replayed]);
  }
  expect(runs).toBe(1);
});
