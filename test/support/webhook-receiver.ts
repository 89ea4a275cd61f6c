/** A receiver of webhooks over a store that counts and fails on purpose, and posts to it through each adapter. */
import express from "express";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import type { OperationOptions } from "../../packages/latchkey/src/operations/operation.ts";
import { memoryStore } from "../../packages/latchkey/src/stores/memory.ts";
import { faultyStore } from "../../packages/latchkey/src/testing/faulty-store.ts";
import {
  expressWebhook,
  fetchWebhook,
  type WebhookOptions,
  webhookReceiver,
} from "../../packages/latchkey/src/webhooks/webhooks.ts";
import { listen } from "./listen.ts";
import { manualPorts } from "./manual-ports.ts";
import { onRelease } from "./resources.ts";
import type { Sender, Signed } from "./webhook-senders.ts";

export type Answer = { status: number; body: unknown; replayed: string | null; retryAfter: string | null };

export const dayMs = 24 * 60 * 60 * 1000;

/** Sends a delivery to a receiver, through one of the adapters. */
export type Post = (signed: Signed) => Promise<Answer>;

async function answerOf(response: Response): Promise<Answer> {
  const text = await response.text();
  return {
    status: response.status,
    body: text.startsWith("{") ? JSON.parse(text) : text,
    replayed: response.headers.get("idempotent-replayed"),
    retryAfter: response.headers.get("retry-after"),
  };
}

export type Receiver = ReturnType<typeof webhookReceiver>;

export async function overExpress(receiver: Receiver, ...before: express.RequestHandler[]): Promise<Post> {
  const app = express();
  for (const middleware of before) app.use(middleware);
  app.post("/webhooks", expressWebhook(receiver));
  app.use(((error, _req, res, _next) => {
    res.status(error.status ?? 500).end(String(error.code ?? error.message));
  }) satisfies express.ErrorRequestHandler);
  const server = await listen(app);
  onRelease(() => server.close());
  return async ({ headers, body }) =>
    answerOf(await fetch(`${server.url}/webhooks`, { method: "POST", headers, body }));
}

export async function overFetch(receiver: Receiver): Promise<Post> {
  const handle = fetchWebhook(receiver);
  return async ({ headers, body }) => {
    const request = new Request("http://hooks.example/webhooks", { method: "POST", headers, body });
    return handle(request).then(answerOf, (error) => ({
      status: 500,
      body: error.code ?? error.message,
      replayed: null,
      retryAfter: null,
    }));
  };
}

export interface Arranged {
  readonly receiver: Receiver;
  readonly events: unknown[];
  readonly reasons: string[];
  /** The number of calls to the store. */
  storeCalls(): number;
  setStoreDown(down: boolean): void;
  advance(ms: number): Promise<void>;
}

export function arrange(
  sender: Sender,
  handle: (event: unknown, release: () => void) => Promise<void> = async () => {},
  more: {
    options?: OperationOptions<"transaction" | "lease">;
    webhook?: Partial<WebhookOptions<unknown>>;
  } = {},
): Arranged {
  const events: unknown[] = [];
  const reasons: string[] = [];
  const ports = manualPorts();
  let calls = 0;
  let down = false;
  const { store } = faultyStore(memoryStore({ ports }), () => {
    calls += 1;
    return down ? "not_sent" : "proceed";
  });
  const latchkey = createLatchkey({ store, ports });
  const operation = latchkey.operation("receive", {
    writes: "none",
    retentionMs: 5 * dayMs,
    ...more.options,
  });
  const options = {
    source: sender.source(),
    tenant: () => "acme",
    onRefused: ({ reason }: { reason: string }) => reasons.push(reason),
    ...more.webhook,
  } as WebhookOptions<unknown>;
  const receiver = webhookReceiver(latchkey, operation, options, async ({ event, attempt }) => {
    events.push(event);
    await handle(event, () => attempt.release());
  });
  return {
    receiver,
    events,
    reasons,
    storeCalls: () => calls,
    setStoreDown(to) {
      down = to;
    },
    advance: (ms) => ports.clock.advance(ms),
  };
}
