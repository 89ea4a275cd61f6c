/** A request in a form that can be sent any number of times without changing. */
import { digestOf, type IntentRecord } from "./intent.ts";

export interface PreparedRequest {
  readonly url: string;
  /** The argument for `fetch`: a Request keeps its settings. */
  readonly input: string | Request;
  /** Everything except method, headers, body and signal. */
  readonly init: RequestInit;
  readonly method: string;
  readonly headers: Headers;
  readonly body: Uint8Array<ArrayBuffer> | null;
  readonly signal: AbortSignal | null;
}

/** Reads the body, including streams and forms: a form gets its boundary here, once for all attempts. */
export async function prepareRequest(
  input: string | URL | Request,
  init: RequestInit,
): Promise<PreparedRequest> {
  const { signal, body: _body, ...rest } = init;
  const request = new Request(input, init);
  const { url, method, headers, body } = request;
  const own = input instanceof Request ? input : null;
  return {
    url,
    input: own ?? url,
    init: rest,
    method,
    headers,
    body: body === null ? null : new Uint8Array(await request.arrayBuffer()),
    signal: signal ?? own?.signal ?? null,
  };
}

/** The request with the stored bytes, if they are stored: a form that was built again has another boundary. */
export function asFirstSent(request: PreparedRequest, { body, type }: IntentRecord): PreparedRequest {
  if (body === null) return request;
  const headers = new Headers(request.headers);
  if (type !== null) headers.set("content-type", type);
  return { ...request, headers, body };
}

/** A record of the request, under a new key. */
export function recordOf(
  request: PreparedRequest,
  key: string,
  isKept: boolean,
  startedAt: number,
): IntentRecord {
  const { method, url, body, headers } = request;
  const type = headers.get("content-type");
  return {
    version: 1,
    key,
    digest: digestOf(`${method} ${url}`, comparable(body, type)),
    method,
    url,
    type: isKept ? type : null,
    body: isKept ? body : null,
    isKept,
    startedAt,
    doneAt: null,
  };
}

/** A form that is built again has another boundary but is the same request. */
function comparable(body: Uint8Array | null, type: string | null): Uint8Array {
  const bytes = body ?? new Uint8Array();
  const [, boundary] = /^multipart\/.*boundary="?([^";]+)/u.exec(type ?? "") ?? [];
  if (boundary === undefined) return bytes;
  return new TextEncoder().encode(new TextDecoder("latin1").decode(bytes).replaceAll(boundary, ""));
}
