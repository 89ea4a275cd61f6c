/** Receivers of webhooks: the signature is checked over the bytes as they came, and an event runs once. */
import { isUtf8 } from "node:buffer";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { DirectExecution, Execution } from "../engine/classify.ts";
import { LatchkeyError } from "../errors.ts";
import { readRequestBytes } from "../http/fetch/fetch-messages.ts";
import { readHeldBody } from "../http/node-response/node-body.ts";
import type { BodyReading } from "../http/protocol/incoming.ts";
import { checkOptions, type OptionNames } from "../known-options.ts";
import type { Latchkey } from "../latchkey.ts";
import { rememberedMs } from "../messages/remembered.ts";
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
  /** Whose webhooks they are, and how they are verified. */
  readonly source: WebhookSource<E>;
  /** Largest body, in bytes; a larger one is refused with 413. GitHub sends up to 25 MB. Default 1 MiB. */
  readonly bodyLimitBytes?: number;
  /** Told of each delivery that was not taken, with what the verifier has thrown. Default: nobody is. */
  readonly onRefused?: (refusal: { readonly reason: WebhookRefusal; readonly error: unknown }) => void;
} & (
  | {
      /** Whose event it is. Asked after the signature was checked, and before anything is looked up. */
      readonly tenant: (event: E, delivery: WebhookDelivery) => Possibly<string> | Promise<Possibly<string>>;
      readonly singleTenant?: never;
    }
  /** All events are of one tenant. For services that have no tenants at all. */
  | { readonly singleTenant: true; readonly tenant?: never }
);

const optionNames = {
  source: true,
  bodyLimitBytes: true,
  onRefused: true,
  tenant: true,
  singleTenant: true,
} as const satisfies OptionNames<Record<keyof WebhookOptions<never> | "tenant" | "singleTenant", unknown>>;

/** Runs one event. What it throws rolls everything back under `transaction`, and the sender sends the event again. */
export type WebhookHandler<Tx, X extends DirectExecution, E> = (
  context: HandlerContext<Tx, X> & { readonly event: E; readonly delivery: WebhookDelivery },
) => Promise<void>;

/** For `expressWebhook` and `fetchWebhook`, or for a framework without an adapter. */
export interface WebhookReceiver {
  readonly bodyLimitBytes: number;
  /**
   * @throws {LatchkeyError} `tenant-missing`, `identity-is-credential`; whatever the handler throws. Answer 500 then.
   */
  receive(delivery: WebhookDelivery): Promise<WebhookAnswer>;
  /** What a body over the limit is answered with. */
  refuseTooLarge(): WebhookAnswer;
}

/**
 * Makes a receiver: an event is an attempt of the operation under its sender's id. Nothing is looked up before the signature
 * was checked; an event that was received before is answered 200 and does not run.
 *
 * @param handler what an event runs; only for an operation that does not own its work
 * @throws {TypeError} when an option is missing, unknown or out of range, when the operation forgets events sooner than their
 * sender stops repeating them, counts keys by path, or may run unprotected.
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
    throw new TypeError("webhookReceiver: source must be one, such as stripeWebhooks({ stripe, secret })");
  }
  if (!Number.isSafeInteger(bodyLimitBytes) || bodyLimitBytes <= 0) {
    throw new TypeError(`bodyLimitBytes must be a positive whole number (got ${bodyLimitBytes})`);
  }
  if (singleTenant === true && tenant === undefined) return { source, tenant: () => "(single)", onRefused };
  if (typeof tenant === "function" && singleTenant === undefined) return { source, tenant, onRefused };
  throw new TypeError(
    "webhookReceiver: say whose events they are: either `tenant: (event) => …` or `singleTenant: true`",
  );
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
    throw new TypeError(`Operation ${name} may run unprotected: events can only be refused`);
  }
  if (settings.keyScope === "path") {
    throw new TypeError(
      `Operation ${name} has keyScope "path", and events have no path: set keyScope to "operation"`,
    );
  }
  const knownMs = rememberedMs(operation);
  if (knownMs > source.retryWindowMs) return;
  throw new TypeError(
    `Operation ${name} remembers an event for ${knownMs} ms, and ${source.name} may send it again for ` +
      `${source.retryWindowMs} ms: it would run twice. Raise retentionMs above that`,
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

/** An Express request, or Node's own. */
interface NodeRequest extends IncomingMessage {
  body?: unknown;
}

/**
 * The receiver as a handler of Express, also for `node:http`. It reads the request itself, or takes the bytes that
 * `express.raw()`, `keepRawBody` or a platform has kept; where a parser has kept none, it fails with `body-consumed`.
 */
export function expressWebhook(
  receiver: WebhookReceiver,
): (req: IncomingMessage, res: ServerResponse, next: (error?: unknown) => void) => void {
  const handle = async (req: NodeRequest, res: ServerResponse): Promise<void> => {
    const reading = await readHeldBody(req, req, receiver.bodyLimitBytes, rawRemedy);
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
  "The signature is over the bytes. Mount the webhook before body parsers, or use `express.raw({ type: '*/*' })` on its route.";

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
      // What `express.raw()` leaves.
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

/** The part of Stripe's client that is used. */
export interface StripeVerifier<E> {
  readonly webhooks: {
    constructEventAsync(payload: Buffer, header: string, secret: string, tolerance?: number): Promise<E>;
  };
}

/**
 * Webhooks of Stripe, verified by its own client. The id is the event's (`evt_…`), which the signature covers. Stripe sends
 * an event again for three days.
 *
 * @param given `toleranceSeconds`: how old a signature may be. Default: the client's, 300.
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
 * Webhooks of GitHub, verified by `verify` of `@octokit/webhooks-methods`. The id is the header `X-GitHub-Delivery`, which a
 * redelivery repeats and the signature does not cover. GitHub redelivers on request, for three days.
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
  /** `X-Shopify-Event-Id`; of Shopify's newer Events, `Shopify-Webhook-Id`. */
  readonly id: string;
  readonly topic: string;
  /** The shop's domain. */
  readonly shop: string;
  readonly payload: unknown;
}

/** The part of `shopifyApi(…)` that is used. */
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
 * Webhooks of Shopify, verified by `@shopify/shopify-api`. The key is the event's id with its topic: one act of a merchant
 * has one id under several topics. The id is in a header, which the signature does not cover. Shopify tries for hours; two
 * days are asked of the operation.
 */
export function shopifyWebhooks(given: { readonly shopify: ShopifyVerifier }): WebhookSource<ShopifyEvent> {
  const { shopify } = given;
  // The secret is the client's own.
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
 * @param given `retryWindowMs`: how long your sender tries. Default 4 days, a little above the specification's example.
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

/** The text whose bytes these are. Of other bytes a text is not what was signed. */
function exactText(body: Uint8Array): string {
  if (!isUtf8(body)) throw new TypeError("The body is not UTF-8, so its signature cannot be checked");
  return Buffer.from(body).toString("utf8");
}

function mismatch(sender: string): Error {
  return new Error(`The signature is not ${sender}'s over these bytes`);
}
