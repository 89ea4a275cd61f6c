/** Small services, one for each question that is put to every framework; a framework's folder in the registry has its own. */
import type { RequestListener } from "node:http";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import type { OperationOptions } from "../../packages/latchkey/src/operations/operation.ts";
import type { RunAnswer } from "../../packages/latchkey/src/operations/owned-work.ts";
import { memoryStore } from "../../packages/latchkey/src/stores/memory.ts";
import { type HttpService, httpService } from "../support/http-service.ts";

export type Listener = RequestListener | Promise<RequestListener>;

export interface SmallServices {
  /** `POST /run` of an operation that owns its work, behind middleware that numbers the requests. */
  readonly served?: (parts: OwnedParts) => Listener;
  /** `POST /v1/run`, answered 202, and its status, behind middleware that numbers the requests. */
  readonly status?: (parts: DeferredParts) => Listener;
  /** `POST /run`, where the adapter fails before the handler when the header `X-Broken` is there. */
  readonly notStarted: Readonly<Record<string, NotStarted>>;
  /** Every path below `/items`. */
  readonly routed: (service: HttpService, options: OperationOptions) => Listener;
}

/** `run` is what the handler does first. */
export type NotStarted = (service: HttpService, run: () => void) => Listener;

export const single = { singleTenant: true } as const;

/** What no framework's own types are needed for. */
type Loose = ReturnType<JSON["parse"]>;

export type OwnedParts = ReturnType<typeof ownedParts>;

export function ownedParts() {
  const { latchkey } = httpService();
  const run = async (input: { readonly amount: number }) => ({ status: 201, body: input });
  return { latchkey, operation: latchkey.operation("charge", { execution: "lease", version: "1", run }) };
}

/** @throws {Error} for 422, with that status */
export function amountIn(body: unknown): number {
  const { amount } = body as { amount?: number };
  if (amount === 422) throw Object.assign(new Error("no such amount"), { status: 422, statusCode: 422 });
  return Number(amount);
}

export const statusOptions = { singleTenant: true, statusPath: "/v1/operations" } as const;

export type DeferredParts = ReturnType<typeof deferredParts>;

export function deferredParts(run: () => Promise<RunAnswer> = async () => ({ status: 201, body: "done" })) {
  const latchkey = createLatchkey({ store: memoryStore() });
  const operation = latchkey.operation("report", { execution: "deferred", version: "1", run: () => run() });
  return { latchkey, operation };
}

const isBroken = (headers: Loose) => headers["x-broken"] !== undefined;
const broken = (): never => {
  throw new Error("broken before the handler");
};

/** A response that cannot be held: what it has so far cannot be read. */
export const breakResponse = (req: Loose, res: Loose) => {
  if (isBroken(req.headers)) res.getRawHeaderNames = broken;
};

/** A reply whose headers can be read so often, and then once not. */
export const breakReply = (request: Loose, reply: Loose, readings = 0) => {
  if (!isBroken(request.headers)) return;
  const { getHeaders } = reply;
  let left = readings;
  reply.getHeaders = () => (left-- === 0 ? broken() : getHeaders.call(reply));
};

/** A request of another class than the platform's, of which none with an unread body can be made. */
export function breakRequest(request: Request): Request {
  if (request.headers.get("x-broken") === null) return request;
  const headers = { get: (name: string) => request.headers.get(name), [Symbol.iterator]: broken };
  const { url, method, signal, body } = request;
  return {
    url,
    method,
    signal,
    body,
    bodyUsed: false,
    headers,
    arrayBuffer: () => request.arrayBuffer(),
  } as Loose;
}
