import express from "express";
import { describe, expect, test } from "vitest";
import {
  arrange,
  dayMs,
  overExpress,
  overFetch,
  type Receiver,
} from "../../../../test/support/webhook-receiver.ts";
import {
  githubSender,
  otherSecret,
  senders,
  shopifySender,
  standardSender,
  stripeSender,
} from "../../../../test/support/webhook-senders.ts";
import { createGate } from "../../../latchkey-conformance/src/http-conformance/case.ts";
import { keepRawBody } from "../http/express/express.ts";
import { fetchWebhook } from "./webhooks.ts";

const ways = senders.flatMap((sender) => [
  { sender, name: sender.name, way: "Express", open: (receiver: Receiver) => overExpress(receiver) },
  ...(sender.fetches ? [{ sender, name: sender.name, way: "Fetch", open: overFetch }] : []),
]);

describe.each(ways)("$name over $way", ({ sender, open }) => {
  test("an event runs once, and every delivery of it is answered 200", async () => {
    const { receiver, events } = arrange(sender);
    const post = await open(receiver);
    const first = await post(await sender.deliver("evt_1"));
    const again = await post(await sender.deliver("evt_1"));
    expect(first).toEqual({ status: 200, body: { received: true }, replayed: null, retryAfter: null });
    expect(again).toEqual({ ...first, replayed: "true" });
    expect((await post(await sender.deliver("evt_2"))).replayed).toBeNull();
    expect(events).toHaveLength(2);
    expect(events[0]).toMatchObject({ id: "evt_1" });
  });

  test("a forged delivery is refused before the tenant is asked or the store is read", async () => {
    let asked = 0;
    const tenant = () => {
      asked += 1;
      return "acme";
    };
    const { receiver, events, reasons, storeCalls } = arrange(sender, undefined, { webhook: { tenant } });
    const post = await open(receiver);
    const genuine = await sender.deliver("evt_1");
    const { [sender.signature]: signature = "", ...unsigned } = genuine.headers;
    const forged = [
      await sender.deliver("evt_1", { secret: otherSecret }),
      { ...genuine, body: genuine.body.replace("é", "e").replace("u00e9", "u00ea") },
      { ...genuine, body: JSON.stringify(JSON.parse(genuine.body)) },
      { headers: unsigned, body: genuine.body },
      { headers: { ...genuine.headers, [sender.signature]: "" }, body: genuine.body },
      { headers: { ...genuine.headers, [sender.signature]: `${signature}0` }, body: genuine.body },
    ];
    for (const delivery of forged) {
      expect(await post(delivery)).toMatchObject({
        status: 400,
        body: { received: false, code: "signature-invalid" },
      });
    }
    expect([storeCalls(), asked, events.length]).toEqual([0, 0, 0]);
    expect(reasons).toEqual(forged.map(() => "signature-invalid"));
    expect(await post(genuine)).toMatchObject({ status: 200, replayed: null });
    expect(asked).toBe(1);
    expect(storeCalls()).toBeGreaterThan(0);
  });

  test("an event without an id is refused", async () => {
    const { receiver, events, storeCalls } = arrange(sender);
    const post = await open(receiver);
    const answer = await post(await sender.deliver(null));
    expect(answer).toMatchObject({ status: 400, body: { code: sender.withoutId } });
    expect([events.length, storeCalls()]).toEqual([0, 0]);
  });

  test("a handler that throws rolls back, and the sender's retry runs", async () => {
    let failing = true;
    const { receiver, events } = arrange(sender, async () => {
      if (failing) throw new Error("deadlock");
    });
    const post = await open(receiver);
    expect(await post(await sender.deliver("evt_1"))).toMatchObject({ status: 500 });
    failing = false;
    expect(await post(await sender.deliver("evt_1"))).toMatchObject({ status: 200, replayed: null });
    expect(await post(await sender.deliver("evt_1"))).toMatchObject({ status: 200, replayed: "true" });
    expect(events).toHaveLength(2);
  });

  test("an operation must remember events for as long as the sender retries", async () => {
    const options = { retentionMs: sender.windowMs + 1 };
    const { receiver, events, advance } = arrange(sender, undefined, { options });
    const post = await open(receiver);
    await post(await sender.deliver("evt_1"));
    await advance(sender.windowMs);
    expect(await post(await sender.deliver("evt_1"))).toMatchObject({ status: 200, replayed: "true" });
    expect(events).toHaveLength(1);
    const short = { retentionMs: sender.windowMs };
    const refused = (options: object) => expect(() => arrange(sender, undefined, { options }));
    refused(short).toThrow("would run twice. Raise forgetAfterMs");
    refused({ ...short, reuse: "execute" }).toThrow("would run twice. Raise retentionMs");
  });
});

describe("the answer to the sender", () => {
  test("while the first delivery runs: retry later", async () => {
    const gate = createGate();
    const { receiver, events } = arrange(stripeSender, () => gate.pass());
    const post = await overFetch(receiver);
    const first = post(await stripeSender.deliver("evt_1"));
    await gate.arrived;
    const second = await post(await stripeSender.deliver("evt_1"));
    expect(second).toMatchObject({ status: 409, body: { code: "in-progress" }, retryAfter: "1" });
    gate.open();
    expect(await first).toMatchObject({ status: 200 });
    expect(events).toHaveLength(1);
  });

  test("when the handler declines: send the event again", async () => {
    const { receiver, events, reasons } = arrange(stripeSender, async (_, release) => release());
    const post = await overFetch(receiver);
    for (let time = 0; time < 2; time++) {
      expect(await post(await stripeSender.deliver("evt_1"))).toMatchObject({ status: 503, retryAfter: "1" });
    }
    expect([events.length, reasons]).toEqual([2, ["released", "released"]]);
  });

  test("when a handler under a lease throws: the outcome is unknown, and the event does not run again", async () => {
    const failing = async () => {
      throw new Error("socket hang up");
    };
    const { receiver, events } = arrange(stripeSender, failing, {
      options: { execution: "lease" },
    });
    const post = await overFetch(receiver);
    expect(await post(await stripeSender.deliver("evt_1"))).toMatchObject({ status: 500 });
    const second = await post(await stripeSender.deliver("evt_1"));
    expect(second).toMatchObject({ status: 409, body: { code: "outcome-unknown" } });
    expect(events).toHaveLength(1);
  });

  test("while the store is down: retry later, and nothing has run", async () => {
    const { receiver, events, setStoreDown } = arrange(stripeSender);
    const post = await overFetch(receiver);
    setStoreDown(true);
    const refused = await post(await stripeSender.deliver("evt_1"));
    expect(refused).toMatchObject({ status: 503, body: { code: "store-unavailable" }, retryAfter: "1" });
    setStoreDown(false);
    expect(await post(await stripeSender.deliver("evt_1"))).toMatchObject({ status: 200 });
    expect(events).toHaveLength(1);
  });

  test("when the record is a tombstone: received, and never 410", async () => {
    const options = { retentionMs: 4 * dayMs, forgetAfterMs: 8 * dayMs };
    const { receiver, events, advance } = arrange(stripeSender, undefined, { options });
    const post = await overFetch(receiver);
    await post(await stripeSender.deliver("evt_1"));
    await advance(5 * dayMs);
    expect(await post(await stripeSender.deliver("evt_1"))).toMatchObject({ status: 200, replayed: "true" });
    expect(events).toHaveLength(1);
  });

  test.each(["Express", "Fetch"])("to a body over the limit, on %s", async (way) => {
    const { receiver, reasons, storeCalls } = arrange(stripeSender, undefined, {
      webhook: { bodyLimitBytes: 100 },
    });
    const post = await (way === "Express" ? overExpress(receiver) : overFetch(receiver));
    const delivery = await stripeSender.deliver("evt_1", { payload: { more: "x".repeat(200) } });
    expect(await post(delivery)).toMatchObject({ status: 413, body: { code: "payload-too-large" } });
    expect([reasons, storeCalls()]).toEqual([["payload-too-large"], 0]);
  });

  test.each(["", "throw"])("without a tenant (%j): an error, and nothing runs", async (given) => {
    const tenant = () => {
      if (given === "throw") throw new Error("no such account");
      return given;
    };
    const { receiver, events, storeCalls } = arrange(stripeSender, undefined, { webhook: { tenant } });
    const post = await overFetch(receiver);
    const answer = await post(await stripeSender.deliver("evt_1"));
    expect(answer).toMatchObject({ status: 500, body: "tenant-missing" });
    expect([events.length, storeCalls()]).toEqual([0, 0]);
  });
});

describe("the identity of an event", () => {
  test("differs between tenants", async () => {
    const tenant = (event: unknown) => String((event as { account?: string }).account);
    const { receiver, events } = arrange(stripeSender, undefined, { webhook: { tenant } });
    const post = await overFetch(receiver);
    for (const account of ["a", "b", "a"])
      await post(await stripeSender.deliver("evt_1", { payload: { account } }));
    expect(events).toHaveLength(2);
  });

  test("is the same in Stripe's retries, whose bytes differ by the number of pending endpoints", async () => {
    const { receiver, events } = arrange(stripeSender);
    const post = await overFetch(receiver);
    const waiting = (count: number) =>
      stripeSender.deliver("evt_1", { payload: { pending_webhooks: count } });
    await post(await waiting(2));
    expect(await post(await waiting(1))).toMatchObject({ status: 200, replayed: "true" });
    expect(events).toHaveLength(1);
  });

  test("includes Shopify's topic: events with the same id and different topics all run", async () => {
    const { receiver, events } = arrange(shopifySender);
    const post = await overExpress(receiver);
    const created = await shopifySender.deliver("evt_1");
    const paid = { ...created, headers: { ...created.headers, "x-shopify-topic": "orders/paid" } };
    for (const delivery of [created, paid, created, paid]) {
      expect(await post(delivery)).toMatchObject({ status: 200 });
    }
    expect(events.map((event) => (event as { topic: string }).topic)).toEqual([
      "ORDERS_CREATE",
      "ORDERS_PAID",
    ]);
  });

  test("is signed in Standard Webhooks: a changed id is refused", async () => {
    const { receiver, storeCalls } = arrange(standardSender);
    const post = await overFetch(receiver);
    const { headers, body } = await standardSender.deliver("msg_1");
    const changed = { body, headers: { ...headers, "webhook-id": "msg_2" } };
    expect(await post(changed)).toMatchObject({ status: 400 });
    expect(storeCalls()).toBe(0);
  });
});

test.each([githubSender, shopifySender, standardSender])(
  "bytes that are not UTF-8 do not pass as $name's signed text",
  async (sender) => {
    const { receiver, storeCalls } = arrange(sender);
    const { headers, body } = await sender.deliver("evt_1", { payload: { note: "\ufffd" } });
    const [before = "", after = ""] = body.split("\ufffd");
    const bytes = Buffer.concat([Buffer.from(before), Buffer.from([0xff]), Buffer.from(after)]);
    expect(bytes.toString("utf8")).toBe(body);
    const header = (name: string) => headers[name] ?? null;
    const request = { headers, method: "POST", url: "/" };
    expect(await receiver.receive({ header, body: bytes, request })).toMatchObject({ status: 400 });
    expect(storeCalls()).toBe(0);
    const genuine = { header, body: Buffer.from(body), request };
    expect(await receiver.receive(genuine)).toMatchObject({ status: 200 });
  },
);

describe("bodies that other code has already read", () => {
  test.each<[string, express.RequestHandler]>([
    ["express.raw", express.raw({ type: "*/*" })],
    ["express.json with keepRawBody", express.json({ verify: keepRawBody })],
  ])("%s keeps the bytes", async (_, parser) => {
    const { receiver, events } = arrange(stripeSender);
    const post = await overExpress(receiver, parser);
    expect(await post(await stripeSender.deliver("evt_1"))).toMatchObject({ status: 200 });
    expect(events).toHaveLength(1);
  });

  test("express.json alone keeps no bytes: an error with the remedy, and nothing runs", async () => {
    const { receiver, events, storeCalls } = arrange(stripeSender);
    const post = await overExpress(receiver, express.json());
    const answer = await post(await stripeSender.deliver("evt_1"));
    expect(answer).toMatchObject({ status: 500, body: "body-consumed" });
    expect([events.length, storeCalls()]).toEqual([0, 0]);
  });

  test("a Request whose body was read is an error", async () => {
    const { receiver } = arrange(stripeSender);
    const { headers, body } = await stripeSender.deliver("evt_1");
    const request = new Request("http://hooks.example/", { method: "POST", headers, body });
    await request.text();
    await expect(fetchWebhook(receiver)(request)).rejects.toMatchObject({ code: "body-consumed" });
  });
});
