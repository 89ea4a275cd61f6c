/** Receivers of webhooks: they check the signature over the bytes as received, and run each event once. */
import { isUtf8 } from "node:buffer";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { DirectExecution, Execution } from "../engine/classify.ts";
import { LatchkeyError } from "../errors.ts";
import { readRequestBytes } from "../http/fetch/fetch-messages.ts";
import { readBufferedBody } from "../http/node-response/node-body.ts";
import type { BodyReading } from "../http/protocol/incoming.ts";
import { checkOptions, type OptionNames } from "../known-options.ts";
import type { Latchkey } from "../latchkey.ts";
import { rememberedMs, rememberingOption } from "../messages/remembered.ts";
import type { HandlerContext } from "../operations/attempt.ts";
import type { Operation } from "../operations/operation.ts";
import { type OwnedOperation, ownsItsWork } from "../operations/owned-operation.ts";
import {
  type ExecuteEvent,
  type ReceiverSettings,
  receiveEvent,
  refused,
  type WebhookAnswer,
  type WebhookRefusal,
} from "./receive.ts";
import type { Verified, WebhookDelivery, WebhookSource } from "./webhook-source.ts";

export type { Verified, WebhookAnswer, WebhookDelivery, WebhookRefusal, WebhookSource };

type Possibly<T> = T | null | undefined;

export type WebhookOptions<E> = {
  /** Who sends the webhooks, and how they are verified. */
  readonly source: WebhookSource<E>;
  /** Largest accepted body, in bytes; larger ones get 413. GitHub sends up to 25 MB. Default 1 MiB. */
  readonly bodyLimitBytes?: number;
  /** Called for each refused delivery, with the error that the verifier threw. Default: nothing is called. */
  readonly onRefused?: (refusal: { readonly reason: WebhookRefusal; readonly error: unknown }) => void;
} & (
  | {
      /** Returns the event's tenant. Called after the signature was checked, before the store is read. */
      readonly tenant: (event: E, delivery: WebhookDelivery) => Possibly<string> | Promise<Possibly<string>>;
      readonly singleTenant?: never;
    }
  /** For services without tenants: all events share one. */
  | { readonly singleTenant: true; readonly tenant?: never }
);

const optionNames = {
  source: true,
  bodyLimitBytes: true,
  onRefused: true,
  tenant: true,
  singleTenant: true,
} as const satisfies OptionNames<Record<keyof WebhookOptions<never> | "tenant" | "singleTenant", unknown>>;

/** Runs one event. If it throws, `transaction` rolls everything back and the sender sends the event again. */
export type WebhookHandler<Tx, X extends DirectExecution, E> = (
  context: HandlerContext<Tx, X> & { readonly event: E; readonly delivery: WebhookDelivery },
) => Promise<void>;

/** For `expressWebhook` and `fetchWebhook`, or for a framework without an adapter. */
export interface WebhookReceiver {
  readonly bodyLimitBytes: number;
  /**
   * @throws {LatchkeyError} `tenant-missing`, `identity-is-credential`; whatever the handler throws. Then answer 500.
   */
  receive(delivery: WebhookDelivery): Promise<WebhookAnswer>;
  /** The answer to a body over the limit. */
  refuseTooLarge(): WebhookAnswer;
}

/**
 * Makes a receiver: each event is an attempt of the operation, with the sender's id as the key. The signature is checked before
 * the store is read; an event that was received before is answered 200 and does not run again.
 *
 * @param handler runs an event; only for an operation that does not own its work
 * @throws {TypeError} when an option is missing, unknown or out of range, or when the operation forgets events before their
 * sender stops repeating them, has `keyScope: "path"`, or may run unprotected.
 */
export function webhookReceiver<Tx, X extends Execution, E>(
  latchkey: Latchkey<Tx>,
  operation: OwnedOperation<X, E>,
  options: WebhookOptions<E>,
): WebhookReceiver;
export function webhookReceiver<Tx, X extends DirectExecution, E>(
  latchkey: Latchkey<Tx>,
  operation: Operation<X>,
  options: WebhookOptions<E>,
  handler: WebhookHandler<Tx, X, E>,
): WebhookReceiver;
export function webhookReceiver<Tx, X extends DirectExecution, E>(
  latchkey: Latchkey<Tx>,
  operation: Operation<X> | OwnedOperation<X, E>,
  options: WebhookOptions<E>,
  handler?: WebhookHandler<Tx, X, E>,
): WebhookReceiver {
  const settings = resolveOptions(options);
  checkOperation(latchkey, operation, settings.source);
  const executor = executorOf(latchkey, operation, handler);
  const { bodyLimitBytes = 1024 * 1024 } = options;
  return {
    bodyLimitBytes,
    receive: (delivery) => receiveEvent(latchkey, operation, settings, delivery, executor(delivery)),
    refuseTooLarge() {
      settings.onRefused({ reason: "payload-too-large", error: null });
      return refused("payload-too-large", null);
    },
  };
}

function resolveOptions<E>(options: WebhookOptions<E>): ReceiverSettings<E> {
  checkOptions("webhookReceiver", options, optionNames);
  const { source, tenant, singleTenant, bodyLimitBytes = 1, onRefused = () => {} } = options;
  if (typeof source?.verify !== "function") {
    throw new TypeError(
      "webhookReceiver: source must be a WebhookSource, such as stripeWebhooks({ stripe, secret })",
    );
  }
  if (!Number.isSafeInteger(bodyLimitBytes) || bodyLimitBytes <= 0) {
    throw new TypeError(`bodyLimitBytes must be a positive whole number (got ${bodyLimitBytes})`);
  }
  if (singleTenant === true && tenant === undefined) return { source, tenant: () => "(single)", onRefused };
  if (typeof tenant === "function" && singleTenant === undefined) return { source, tenant, onRefused };
  throw new TypeError("webhookReceiver: set either `tenant: (event) => …` or `singleTenant: true`");
}

function checkOperation<Tx, E>(
  { runtime }: Latchkey<Tx>,
  operation: Operation,
  source: WebhookSource<E>,
): void {
  const { name, settings } = operation;
  if (runtime.operations.get(name) !== operation) {
    throw new TypeError(`Operation ${name} was defined on another latchkey`);
  }
  if (settings.onStoreFailure !== "refuse") {
    throw new TypeError(`Operation ${name} may run unprotected: set onStoreFailure to "refuse"`);
  }
  if (settings.keyScope === "path") {
    throw new TypeError(
      `Operation ${name} has keyScope "path", and events have no path: set keyScope to "operation"`,
    );
  }
  const knownMs = rememberedMs(operation);
  if (knownMs > source.retryWindowMs) return;
  throw new TypeError(
    `Operation ${name} remembers an event for ${knownMs} ms, but ${source.name} may repeat it for ` +
      `${source.retryWindowMs} ms: it would run twice. Raise ${rememberingOption(operation)} above that`,
  );
}

function executorOf<Tx, X extends DirectExecution, E>(
  latchkey: Latchkey<Tx>,
  operation: Operation<X> | OwnedOperation<X, E>,
  handler: WebhookHandler<Tx, X, E> | undefined,
): (delivery: WebhookDelivery) => ExecuteEvent<E> {
  if (ownsItsWork(operation)) {
    if (handler !== undefined)
      throw new TypeError(`Operation ${operation.name} owns its work: leave out the handler`);
    const owned = operation as OwnedOperation<X, E>;
    return () => (submission, event) => latchkey.executeOwned(owned, submission, event);
  }
  if (typeof handler !== "function") {
    throw new TypeError(`Operation ${operation.name} has no \`run\`: pass a handler for its events`);
  }
  return (delivery) => (submission, event) =>
    latchkey.execute(operation, submission, async (context) => {
      await handler({ ...context, event, delivery });
      return { status: 204, headers: [], body: new Uint8Array(), omitted: null };
    });
}

/** A request of Express or of `node:http`. */
interface NodeRequest extends IncomingMessage {
  body?: unknown;
}

/**
 * The receiver as a handler for Express or `node:http`. It reads the request itself, or uses the bytes that `express.raw()`,
 * `keepRawBody` or a platform has kept; if a parser has kept none, it fails with `body-consumed`.
 */
export function expressWebhook(
  receiver: WebhookReceiver,
): (req: IncomingMessage, res: ServerResponse, next: (error?: unknown) => void) => void {
  const handle = async (req: NodeRequest, res: ServerResponse): Promise<void> => {
    const reading = await readBufferedBody(req, req, receiver.bodyLimitBytes, rawRemedy);
    const answer = await answerTo(receiver, reading, {
      request: req,
      header: (name) => {
        const value = req.headers[name.toLowerCase()];
        return value === undefined ? null : String(value);
      },
    });
    res.statusCode = answer.status;
    for (const [name, value] of answer.headers) res.setHeader(name, value);
    res.end(answer.body);
  };
  return (req, res, next) => {
    handle(req, res).catch(next);
  };
}

/** The receiver as a function from `Request` to `Response`: Next.js, Hono, Workers, Bun, Deno. */
export function fetchWebhook(receiver: WebhookReceiver): (request: Request) => Promise<Response> {
  return async (request) => {
    const reading = await readRequestBytes(request, receiver.bodyLimitBytes);
    const header = (name: string) => request.headers.get(name);
    const { status, headers, body } = await answerTo(receiver, reading, { request, header });
    return new Response(body, { status, headers: headers.map(([name, value]) => [name, value]) });
  };
}

const rawRemedy =
  "The signature covers the raw bytes. Mount the webhook before body parsers, or use `express.raw({ type: '*/*' })` on its route.";

async function answerTo(
  receiver: WebhookReceiver,
  reading: BodyReading,
  delivery: Omit<WebhookDelivery, "body">,
): Promise<WebhookAnswer> {
  switch (reading.kind) {
    case "bytes":
      return receiver.receive({ ...delivery, body: reading.bytes });
    case "too-large":
      return receiver.refuseTooLarge();
    case "parsed":
      // From `express.raw()`.
      if (reading.value instanceof Uint8Array) return receiver.receive({ ...delivery, body: reading.value });
      throw new LatchkeyError("body-consumed", { message: reading.remedy });
    case "consumed":
      throw new LatchkeyError("body-consumed", { message: reading.remedy });
    default:
      return reading satisfies never;
  }
}

const hourMs = 60 * 60 * 1000;
const dayMs = 24 * hourMs;

/** The part of Stripe's client that Latchkey uses. */
export interface StripeVerifier<E> {
  readonly webhooks: {
    constructEventAsync(payload: Buffer, header: string, secret: string, tolerance?: number): Promise<E>;
  };
}

/**
 * Stripe's webhooks, verified by its own client. The id is the event's (`evt_…`), which the signature covers. Stripe repeats
 * an event for three days.
 *
 * @param given `toleranceSeconds`: maximum age of a signature. Default: the client's, 300.
 */
export function stripeWebhooks<E extends { readonly id: string }>(given: {
  readonly stripe: StripeVerifier<E>;
  readonly secret: string;
  readonly toleranceSeconds?: number;
}): WebhookSource<E> {
  const { stripe, secret, toleranceSeconds } = given;
  return sourceOf("Stripe", secret, 3 * dayMs, async ({ header, body }) => {
    const signature = header("stripe-signature") ?? "";
    const event = await stripe.webhooks.constructEventAsync(
      Buffer.from(body),
      signature,
      secret,
      toleranceSeconds,
    );
    return { id: event.id, event };
  });
}

export interface GithubEvent {
  /** `X-GitHub-Delivery`. */
  readonly id: string;
  /** `X-GitHub-Event`, such as `push`. */
  readonly name: string;
  readonly payload: unknown;
}

/**
 * GitHub's webhooks, verified by `verify` of `@octokit/webhooks-methods`. The id is the header `X-GitHub-Delivery`, which is the
 * same in redeliveries and which the signature does not cover. GitHub redelivers on request, for three days.
 */
export function githubWebhooks(given: {
  readonly verify: (secret: string, payload: string, signature: string) => Promise<boolean>;
  readonly secret: string;
}): WebhookSource<GithubEvent> {
  const { verify, secret } = given;
  return sourceOf("GitHub", secret, 3 * dayMs, async ({ header, body }) => {
    const text = exactText(body);
    if (!(await verify(secret, text, header("x-hub-signature-256") ?? ""))) throw mismatch("GitHub");
    const id = header("x-github-delivery") ?? "";
    return { id, event: { id, name: header("x-github-event") ?? "", payload: JSON.parse(text) } };
  });
}

export interface ShopifyEvent {
  /** `X-Shopify-Event-Id`, or `Shopify-Webhook-Id` in Shopify's newer Events. */
  readonly id: string;
  readonly topic: string;
  /** The shop's domain. */
  readonly shop: string;
  readonly payload: unknown;
}

/** The part of `shopifyApi(…)` that Latchkey uses. */
export interface ShopifyVerifier {
  readonly webhooks: {
    validate(given: { rawBody: string; rawRequest: unknown }): Promise<{
      readonly valid: boolean;
      readonly topic?: string;
      readonly domain?: string;
      readonly webhookId?: string;
      readonly eventId?: string;
    }>;
  };
}

/**
 * Shopify's webhooks, verified by `@shopify/shopify-api`. The key is the event's id with its topic, because one action of a
 * merchant has the same id in several topics. The id is in a header, which the signature does not cover. Shopify retries for
 * hours; the operation must remember events for two days.
 */
export function shopifyWebhooks(given: { readonly shopify: ShopifyVerifier }): WebhookSource<ShopifyEvent> {
  const { shopify } = given;
  // The client has the secret.
  return sourceOf("Shopify", "of the client", 2 * dayMs, async ({ body, request }) => {
    const text = exactText(body);
    const checked = await shopify.webhooks.validate({ rawBody: text, rawRequest: request });
    if (!checked.valid) throw mismatch("Shopify");
    const { topic = "", domain: shop = "", eventId, webhookId } = checked;
    const id = eventId ?? webhookId ?? "";
    const event = { id, topic, shop, payload: JSON.parse(text) };
    return { id: id === "" ? id : `${topic} ${id}`, event };
  });
}

export interface StandardEvent {
  /** `webhook-id`. */
  readonly id: string;
  readonly payload: unknown;
}

/**
 * Standard Webhooks, verified by `standardwebhooks` (or `svix`, which has the same method). The id is the header
 * `webhook-id`, which the signature covers.
 *
 * @param given `retryWindowMs`: how long your sender retries. Default 4 days, slightly above the specification's example.
 */
export function standardWebhooks(given: {
  readonly webhook: { verify(payload: string, headers: Record<string, string>): unknown };
  readonly retryWindowMs?: number;
}): WebhookSource<StandardEvent> {
  const { webhook, retryWindowMs = 4 * dayMs } = given;
  return sourceOf("The sender", "of the verifier", retryWindowMs, async ({ header, body }) => {
    const names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    const headers = Object.fromEntries(names.map((name) => [name, header(name) ?? ""]));
    const payload = await webhook.verify(exactText(body), headers);
    const id = headers["webhook-id"] ?? "";
    return { id, event: { id, payload } };
  });
}

function sourceOf<E>(
  name: string,
  secret: string,
  retryWindowMs: number,
  check: (delivery: WebhookDelivery) => Promise<{ readonly id: string; readonly event: E }>,
): WebhookSource<E> {
  if (typeof secret !== "string" || secret === "") throw new TypeError(`${name}: the secret is missing`);
  return {
    name,
    retryWindowMs,
    async verify(delivery): Promise<Verified<E>> {
      try {
        return { kind: "genuine", ...(await check(delivery)) };
      } catch (error) {
        return { kind: "forged", error };
      }
    },
  };
}

/** Decodes UTF-8. Other bytes are rejected: their text would not be what the sender signed. */
function exactText(body: Uint8Array): string {
  if (!isUtf8(body)) throw new TypeError("The body is not UTF-8, so its signature cannot be checked");
  return Buffer.from(body).toString("utf8");
}

function mismatch(sender: string): Error {
  return new Error(`${sender}'s signature does not match these bytes`);
}
