/** A client that sees the bytes on the wire: field lines separately and in order. */
import { type IncomingMessage, request } from "node:http";
import { connect } from "node:net";

export interface HttpCall {
  /** Default POST. */
  readonly method?: string;
  /** Path and query. Default `/run`. */
  readonly target?: string;
  /** The idempotency key as the header's value; null: no header. Default: a new key. */
  readonly key?: string | null;
  /** Default `tenant-1`; null: no header. */
  readonly tenant?: string | null;
  readonly principal?: string;
  /** A string is sent as UTF-8. Default `{"amount":1}`. */
  readonly body?: string | Uint8Array;
  /** Null: no header. Default `application/json`. */
  readonly contentType?: string | null;
  /** Further field lines. */
  readonly headers?: readonly (readonly [name: string, value: string])[];
}

export interface HttpAnswer {
  readonly status: number;
  /** The reason phrase. */
  readonly statusText: string;
  /** Field lines in order, names in lower case. */
  readonly lines: readonly (readonly [name: string, value: string])[];
  readonly body: Buffer;
  /** The values of a name's lines, joined; null if there are none. */
  header(name: string): string | null;
  json(): Readonly<Record<string, unknown>>;
}

let keysMade = 0;

/** A key that no other call uses. */
export function newKey(): string {
  keysMade += 1;
  return `key-${keysMade}`;
}

/** Sends one request on its own connection. `signal` disconnects. */
export async function send(url: string, call: HttpCall, signal?: AbortSignal): Promise<HttpAnswer> {
  const body = Buffer.from(call.body ?? '{"amount":1}');
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const outgoing = request(new URL(call.target ?? "/run", url), {
      agent: false,
      method: call.method ?? "POST",
      headers: fieldLines(url, call, body).flat(),
      ...(signal === undefined ? {} : { signal }),
    });
    outgoing.on("response", resolve).on("error", reject);
    outgoing.end(body);
  });
  return readAnswer(response);
}

function fieldLines(url: string, call: HttpCall, body: Buffer): (readonly [string, string])[] {
  const lines: (readonly [string, string])[] = [["Host", new URL(url).host]];
  const { key = newKey(), tenant = "tenant-1", principal, contentType = "application/json" } = call;
  if (key !== null) lines.push(["Idempotency-Key", key]);
  if (tenant !== null) lines.push(["X-Tenant", tenant]);
  if (principal !== undefined) lines.push(["X-Principal", principal]);
  if (contentType !== null) lines.push(["Content-Type", contentType]);
  lines.push(["Content-Length", String(body.byteLength)], ["Connection", "close"]);
  return [...lines, ...(call.headers ?? [])];
}

async function readAnswer(response: IncomingMessage): Promise<HttpAnswer> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk);
  const lines: [string, string][] = [];
  for (let index = 0; index + 1 < response.rawHeaders.length; index += 2) {
    lines.push([response.rawHeaders[index]?.toLowerCase() ?? "", response.rawHeaders[index + 1] ?? ""]);
  }
  const body = Buffer.concat(chunks);
  return {
    status: response.statusCode ?? 0,
    statusText: response.statusMessage ?? "",
    lines,
    body,
    header(name) {
      const values = lines.filter(([each]) => each === name.toLowerCase()).map(([, value]) => value);
      return values.length === 0 ? null : values.join(", ");
    },
    json: () => JSON.parse(body.toString("utf8")),
  };
}

export interface RawExchange {
  /** The bytes received so far. */
  received(): Buffer;
  readonly closed: Promise<void>;
}

/** Sends bytes that an HTTP client would not send, or whose answer must be observed while it arrives. */
export function sendBytes(url: string, bytes: Buffer): RawExchange {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  const chunks: Buffer[] = [];
  const closed = Promise.withResolvers<void>();
  socket.on("data", (chunk) => chunks.push(chunk));
  socket.on("close", () => closed.resolve()).on("error", (error) => closed.reject(error));
  socket.write(bytes);
  return { received: () => Buffer.concat(chunks), closed: closed.promise };
}

/** A request as bytes; the connection closes after it. */
export function requestBytes(fields: readonly string[], body: string): Buffer {
  const length = `Content-Length: ${Buffer.byteLength(body)}`;
  const head = [
    "POST /run HTTP/1.1",
    "Host: a",
    "X-Tenant: tenant-1",
    "Connection: close",
    length,
    ...fields,
  ];
  return Buffer.from(`${head.join("\r\n")}\r\n\r\n${body}`, "latin1");
}
