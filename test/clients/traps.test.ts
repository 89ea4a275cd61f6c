/** What the tables do not show: where a client does something else than its user expects. */
import express, { type Request } from "express";
import { createLatchkey, type HttpSettings, ietf, type Policy, stripe } from "latchkey";
import { expressProtect, keepRawBody } from "latchkey/express";
import { memoryStore } from "latchkey/memory";
import { fetch as undiciFetch } from "undici";
import { afterEach, describe, expect, test } from "vitest";
import { type Listening, listen } from "../support/listen.ts";
import { deferred } from "../support/until.ts";
import { openaiAt } from "./settings/openai.ts";
import { stripeAt } from "./settings/stripe.ts";
import { retryAgent } from "./settings/undici.ts";
import { openWire } from "./wire.ts";

interface App extends Listening {
  readonly port: number;
  /** `POST /orders` has been started. */
  readonly started: Promise<void>;
  /** Lets the handler of `POST /orders` go on. */
  release(): void;
  orders(): number;
}

const order = { item: "book" };
const key = "k";
const apps: App[] = [];

afterEach(async () => {
  await Promise.all(apps.splice(0).map((app) => app.close()));
});

/** `POST /orders` makes an order when it is let; `POST /orders/lost` never knows what it did. */
async function openApp(policy: Policy = stripe, settings: HttpSettings<Request> = {}): Promise<App> {
  const store = memoryStore();
  const latchkey = createLatchkey({ store, policy });
  const protect = expressProtect(latchkey, { tenant: () => "t", ...settings });
  const orders = latchkey.operation("orders", { execution: "transaction", key: "required" });
  const lost = latchkey.operation("lost", { execution: "lease" });
  const started = deferred();
  const released = deferred();
  const server = express();
  server.use(express.json({ verify: keepRawBody }), express.urlencoded({ verify: keepRawBody }));
  server.post(
    "/orders",
    protect(orders, async (_req, res, { tx }) => {
      tx.insert("orders", { id: 1 });
      started.resolve();
      await released.promise;
      res.status(201).json({ id: "order-1" });
    }),
  );
  server.post(
    "/orders/lost",
    protect(lost, () => Promise.reject(new Error("lost"))),
  );
  const listening = await listen(server);
  const app = {
    ...listening,
    port: Number(new URL(listening.url).port),
    started: started.promise,
    release: () => released.resolve(),
    orders: () => store.rows("orders").length,
  };
  apps.push(app);
  return app;
}

describe("stripe-node", () => {
  const submit = (to: App, body: object) => {
    const options = { idempotencyKey: key, maxNetworkRetries: 0 };
    return stripeAt("127.0.0.1", to.port).rawRequest("POST", "/orders", { ...body }, options);
  };

  test("without a key of its user's it makes one, which all its attempts carry", async () => {
    const app = await openApp();
    app.release();
    const wire = await openWire(app.port);
    const answer = wire.proxy.holdReplyWhen(() => true);
    const created = stripeAt("127.0.0.1", wire.port).rawRequest("POST", "/orders", order);
    await answer.held();
    answer.drop();
    expect(await created).toMatchObject({ id: "order-1" });
    expect(wire.keys).toHaveLength(2);
    expect(wire.keys[0]).toMatch(/^stripe-node-retry-[0-9a-f-]{36}$/u);
    expect(wire.keys[1]).toBe(wire.keys[0]);
    expect(app.orders()).toBe(1);
  });

  test("it hands a problem without the member `error` to its user as if it were the result", async () => {
    const app = await openApp({ ...stripe, errorMember: false });
    const first = submit(app, order);
    await app.started;
    expect(await submit(app, order)).toMatchObject({ code: "in-progress", status: 409 });
    app.release();
    expect(await first).toMatchObject({ id: "order-1" });
    expect(await submit(app, { item: "pen" })).toMatchObject({ code: "key-misuse", status: 400 });
    expect(app.orders()).toBe(1);
  });

  test("it throws a problem of the policy `stripe`", async () => {
    const app = await openApp();
    const first = submit(app, order);
    await app.started;
    const inProgress = {
      type: "StripeAPIError",
      statusCode: 409,
      code: "idempotency_key_in_use",
      rawType: "invalid_request_error",
    };
    await expect(submit(app, order)).rejects.toMatchObject(inProgress);
    app.release();
    await first;
    const misuse = { type: "StripeIdempotencyError", statusCode: 400, code: "key-misuse" };
    await expect(submit(app, { item: "pen" })).rejects.toMatchObject(misuse);
    const malformed = stripeAt("127.0.0.1", app.port).rawRequest("POST", "/orders", order, {
      idempotencyKey: "no spaces",
      maxNetworkRetries: 0,
    });
    const invalid = { type: "StripeInvalidRequestError", statusCode: 400, code: "invalid-key" };
    await expect(malformed).rejects.toMatchObject(invalid);
  });
});

describe.each([
  { policy: ietf, settings: {}, requests: 3 },
  { policy: ietf, settings: { shouldRetryHeaders: true }, requests: 2 },
  { policy: stripe, settings: {}, requests: 2 },
  { policy: stripe, settings: { shouldRetryHeaders: false }, requests: 3 },
])("a 409 that is final, under the policy $policy.name with $settings", ({ policy, settings, requests }) => {
  /** The first request is answered 500, the second one 409: only the header says that a third is in vain. */
  const openLost = async (practice = policy) => openWire((await openApp(practice, settings)).port);
  const final = policy.errorMember
    ? { code: "outcome-unknown", type: "api_error" }
    : { code: "outcome-unknown", retryable: false };

  test(`stripe-node sends ${requests} requests`, async () => {
    const wire = await openLost({ ...policy, errorMember: true });
    const api = stripeAt("127.0.0.1", wire.port);
    const sent = api.rawRequest("POST", "/orders/lost", order, { idempotencyKey: key });
    await expect(sent).rejects.toMatchObject({ statusCode: 409, code: "outcome-unknown" });
    expect(wire.keys).toHaveLength(requests);
  });

  test(`openai-node sends ${requests} requests`, async () => {
    const wire = await openLost();
    const api = openaiAt(`http://127.0.0.1:${wire.port}`);
    const sent = api.post("/orders/lost", { body: order, headers: { "Idempotency-Key": key } });
    await expect(sent).rejects.toMatchObject({ status: 409, error: final });
    expect(wire.keys).toHaveLength(requests);
  });
});

test("openai-node does not send its option `idempotencyKey`", async () => {
  const app = await openApp();
  const sent = openaiAt(app.url).post("/orders", { body: order, idempotencyKey: key });
  await expect(sent).rejects.toMatchObject({ status: 400 });
  expect(app.orders()).toBe(0);
});

test("below fetch, undici's RetryAgent cannot send a body again, and a TypeError hides the answer", async () => {
  const app = await openApp();
  const submit = (options: { dispatcher?: ReturnType<typeof retryAgent> } = {}) =>
    undiciFetch(`${app.url}/orders`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "Idempotency-Key": key },
      body: JSON.stringify(order),
      ...options,
    });
  const first = submit();
  await app.started;
  await expect(submit({ dispatcher: retryAgent() })).rejects.toMatchObject({
    name: "TypeError",
    cause: { code: "UND_ERR_REQ_CONTENT_LENGTH_MISMATCH" },
  });
  app.release();
  expect((await first).status).toBe(201);
  expect(app.orders()).toBe(1);
});
