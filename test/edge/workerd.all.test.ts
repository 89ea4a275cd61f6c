import { Miniflare } from "miniflare";
import { afterAll, beforeAll, expect, test } from "vitest";
import { bundleWorker } from "./bundle.ts";

/** The real library in Cloudflare's own runtime, bundled as its tool bundles it. */
let workerd: Miniflare;

beforeAll(async () => {
  workerd = new Miniflare({
    modules: true,
    script: await bundleWorker(new URL("./worker.ts", import.meta.url)),
    compatibilityDate: "2026-07-01",
    compatibilityFlags: ["nodejs_compat"],
  });
  await workerd.ready;
});

afterAll(() => workerd?.dispose());

const post = async (path: string, body: unknown = { amount: 5 }, key = "one") => {
  const init = {
    method: "POST",
    headers: { "Idempotency-Key": key, "Content-Type": "application/json" },
    body: JSON.stringify(body),
  };
  const response = await workerd.dispatchFetch(`http://worker${path}`, init);
  const replayed = response.headers.get("Idempotent-Replayed");
  return { status: response.status, body: await response.json(), replayed };
};

test.each([
  ["/orders", { runs: 1 }],
  ["/payments", { charged: 5 }],
  ["/hono", { runs: 2 }],
])("made at module level, %s runs once and replays", async (path, body) => {
  expect(await post(path)).toEqual({ status: 201, body, replayed: null });
  expect(await post(path)).toEqual({ status: 201, body, replayed: "true" });
});

test("services run a round, and a key has one name in all events", async () => {
  const services = await workerd.dispatchFetch("http://worker/services", { method: "POST" });
  expect(await services.json()).toMatchObject({ cleaned: { purged: 0 }, sent: { claimed: 0 } });
  const events = (await (await workerd.dispatchFetch("http://worker/events")).json()) as string[];
  const named = events.filter((event) => /^(executed|replayed) [0-9a-f]{12}$/u.test(event));
  expect(named.length).toBeGreaterThanOrEqual(6);
});
