/** A Cloudflare worker: everything is made while the module is loaded, where there is no randomness, timer or I/O. */
import { Hono } from "hono";
import { createLatchkey, effectDispatcher, recordCleaner, stripe } from "latchkey";
import { encryptionCodec } from "latchkey/encryption";
import { fetchProtect, fetchServe, fetchStatus } from "latchkey/fetch";
import { honoProtect } from "latchkey/hono";
import { memoryStore } from "latchkey/memory";

const events: string[] = [];
const latchkey = createLatchkey({
  store: memoryStore(),
  policy: stripe,
  keySecret: "k".repeat(32),
  codec: encryptionCodec({ keys: { one: new Uint8Array(32).fill(1) }, current: "one" }),
  onEvent: ({ type, ...event }) => events.push("keyHash" in event ? `${type} ${event.keyHash}` : type),
});
const options = { tenant: () => "tenant" };
let runs = 0;

const order = latchkey.operation("orders", { writes: "none" });
const orders = fetchProtect(latchkey, options)(order, async () => {
  runs += 1;
  return Response.json({ runs }, { status: 201 });
});

const charge = latchkey.effect("charge", {
  deduplication: "provider",
  dedupeWindowMs: 60_000,
  execute: async (input: { readonly amount: number }) => ({ charged: input.amount }),
});
const payment = latchkey.operation("payments", {
  execution: "lease",
  leaseEnd: "resume",
  version: "1",
  run: async (input: { readonly amount: number }, attempt) => ({
    status: 201,
    body: await attempt.call("charge", charge, input),
  }),
});
const payments = fetchServe(latchkey, options)(
  payment,
  async (request) => (await request.json()) as { readonly amount: number },
);
const report = latchkey.operation("reports", {
  execution: "deferred",
  version: "1",
  run: async () => ({ status: 200, body: { done: true } }),
});
const reports = fetchServe(latchkey, { ...options, statusPath: "/status" })(report, () => null);
const status = fetchStatus(latchkey, options);
const cleaner = recordCleaner(latchkey);
const dispatcher = effectDispatcher(latchkey);

const hono = new Hono();
const leased = latchkey.operation("hono", { execution: "lease" });
hono.post(
  "/hono",
  honoProtect(latchkey, options)(leased, (c) => c.json({ runs: ++runs }, 201)),
);

// biome-ignore lint/style/noDefaultExport: the runtime takes the default export
export default {
  async fetch(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    if (pathname === "/orders") return orders(request);
    if (pathname === "/payments") return payments(request);
    if (pathname === "/reports") return reports(request);
    if (pathname === "/hono") return hono.fetch(request);
    if (pathname === "/services") {
      return Response.json({ cleaned: await cleaner.runOnce(), sent: await dispatcher.runOnce() });
    }
    if (pathname === "/events") return Response.json(events);
    return status(request, pathname.slice(1));
  },
};
