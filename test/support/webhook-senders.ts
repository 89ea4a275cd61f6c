/** Senders of webhooks: each signs with its own package, and the receiver verifies with it. */
import { createHmac } from "node:crypto";
import "@shopify/shopify-api/adapters/node";
import { sign, verify } from "@octokit/webhooks-methods";
import { ApiVersion, LogSeverity, shopifyApi } from "@shopify/shopify-api";
import { Webhook } from "standardwebhooks";
import Stripe from "stripe";
import type { WebhookSource } from "../../packages/latchkey/src/webhooks/webhook-source.ts";
import {
  githubWebhooks,
  shopifyWebhooks,
  standardWebhooks,
  stripeWebhooks,
} from "../../packages/latchkey/src/webhooks/webhooks.ts";

export interface Signed {
  readonly headers: Record<string, string>;
  readonly body: string;
}

export interface Sender {
  readonly name: string;
  source(): WebhookSource<unknown>;
  /** A delivery of the event `id`; without an id it is still signed. */
  deliver(id: string | null, of?: { readonly payload?: object; readonly secret?: string }): Promise<Signed>;
  /** The headers that prove that it is genuine. */
  readonly signature: string;
  /** The reason for which a delivery without an id is refused: some verifiers need the id. */
  readonly withoutId: "missing-id" | "signature-invalid";
  /** How long it sends an event again, in milliseconds. */
  readonly windowMs: number;
  /** Whether its verifier works on each adapter: Shopify's is set up for one runtime in a whole process. */
  readonly fetches: boolean;
}

const json = { "content-type": "application/json" };
const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const client = new Stripe("sk_test_not_used");
const dayMs = 24 * 60 * 60 * 1000;
/** JSON in an unusual format: only the exact bytes match the signature. */
const spaced = (value: object) => JSON.stringify(value, null, 3).replace("é", "\\u00e9");

export const stripeSender: Sender = {
  name: "Stripe",
  withoutId: "missing-id",
  signature: "stripe-signature",
  windowMs: 3 * dayMs,
  fetches: true,
  source: () => stripeWebhooks({ stripe: client, secret }),
  async deliver(id, { payload = {}, secret: own = secret } = {}) {
    const body = spaced({
      ...(id === null ? {} : { id }),
      object: "event",
      type: "charge.succeeded",
      name: "é",
      ...payload,
    });
    const header = await client.webhooks.generateTestHeaderStringAsync({ payload: body, secret: own });
    return { headers: { ...json, "stripe-signature": header }, body };
  },
};

export const githubSender: Sender = {
  name: "GitHub",
  withoutId: "missing-id",
  signature: "x-hub-signature-256",
  windowMs: 3 * dayMs,
  fetches: true,
  source: () => githubWebhooks({ verify, secret }),
  async deliver(id, { payload = {}, secret: own = secret } = {}) {
    const body = spaced({ ref: "refs/heads/main", name: "é", ...payload });
    const delivery = id === null ? {} : { "x-github-delivery": id };
    const signature = await sign(own, body);
    return {
      headers: { ...json, "x-github-event": "push", "x-hub-signature-256": signature, ...delivery },
      body,
    };
  },
};

const shopify = shopifyApi({
  apiKey: "key",
  apiSecretKey: secret,
  hostName: "app.example",
  apiVersion: ApiVersion.July26,
  isEmbeddedApp: false,
  logger: { level: LogSeverity.Error },
});

export const shopifySender: Sender = {
  name: "Shopify",
  withoutId: "signature-invalid",
  signature: "x-shopify-hmac-sha256",
  windowMs: 2 * dayMs,
  fetches: false,
  source: () => shopifyWebhooks({ shopify }),
  async deliver(id, { payload = {}, secret: own = secret } = {}) {
    const body = spaced({ total: 5, name: "é", ...payload });
    const signature = createHmac("sha256", own).update(body).digest("base64");
    const headers = {
      ...json,
      "x-shopify-topic": "orders/create",
      "x-shopify-shop-domain": "acme.myshopify.com",
      "x-shopify-api-version": "2026-07",
      "x-shopify-webhook-id": id === null ? "" : `webhook-${id}`,
      "x-shopify-hmac-sha256": signature,
      ...(id === null ? {} : { "x-shopify-event-id": id }),
    };
    return { headers, body };
  },
};

export const standardSender: Sender = {
  name: "Standard Webhooks",
  withoutId: "signature-invalid",
  signature: "webhook-signature",
  windowMs: 4 * dayMs,
  fetches: true,
  source: () => standardWebhooks({ webhook: new Webhook(secret) }),
  async deliver(id, { payload = {}, secret: own = secret } = {}) {
    const body = spaced({ type: "user.created", name: "é", ...payload });
    const at = new Date();
    const signature = new Webhook(own).sign(id ?? "", at, body);
    const headers = {
      ...json,
      "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
      "webhook-signature": signature,
      ...(id === null ? {} : { "webhook-id": id }),
    };
    return { headers, body };
  },
};

export const otherSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
export const senders: readonly Sender[] = [stripeSender, githubSender, shopifySender, standardSender];
