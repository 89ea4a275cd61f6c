/** Reads requests from Hono contexts and answers through them. */
import type { IncomingMessage } from "node:http";
import { LatchkeyError } from "../../errors.ts";
import {
  captureResponse,
  isFinalStatus,
  joinedHeader,
  readRequestBytes,
  targetOf,
  toResponse,
  unread,
} from "../fetch/fetch-messages.ts";
import { leaveUnder, untouchedMessage } from "../node-response/fetch-server.ts";
import { discardUnread, headerLines, readBytes, requireHttp1 } from "../node-response/node-messages.ts";
import type { HeaderEntry, Reply } from "../protocol/capture.ts";
import type { BodyReading, HeaderLines, Incoming } from "../protocol/incoming.ts";
import { uploadedForm } from "../shared/uploads.ts";
import type { HonoContext } from "./hono-types.ts";

/**
 * Path and query as the client sent them. `app.mount` passes on a new request without the mount's path; on Node the underlying
 * message still has it, and Connect's routers keep it in `originalUrl`. On other platforms an app can set `env.originalUrl`.
 */
export function honoTarget(c: HonoContext): string {
  const { incoming, originalUrl } = (c.env ?? {}) as {
    readonly incoming?: Partial<IncomingMessage> & { originalUrl?: unknown };
    readonly originalUrl?: unknown;
  };
  if (typeof originalUrl === "string") return targetOf({ url: new URL(originalUrl, c.req.raw.url).href });
  const sent = incoming?.originalUrl ?? incoming?.url;
  return typeof sent === "string" && sent.startsWith("/")
    ? targetOf({ url: `http://localhost${sent}` })
    : targetOf(c.req.raw);
}

/** Node has the raw field lines; elsewhere `Headers` has joined them. */
function keyLines(c: HonoContext, name: string): HeaderLines {
  const { incoming } = (c.env ?? {}) as { readonly incoming?: Partial<IncomingMessage> };
  const { rawHeaders, headers } = incoming ?? {};
  if (!Array.isArray(rawHeaders) || headers === undefined) return joinedHeader(c.req.raw, name);
  return headerLines({ rawHeaders, headers }, name);
}

/** The request, and the headers that middleware has prepared for the answer. */
export function readContext(c: HonoContext): {
  readonly incoming: Incoming;
  /** `giveBack` makes the body readable again for handlers. */
  readonly body: { giveBack(): void };
  readonly prepared: readonly HeaderEntry[];
} {
  const body = createBody(c);
  const incoming = {
    method: c.req.method,
    target: honoTarget(c),
    header: (name: string) => keyLines(c, name),
    readBody: body.read,
  };
  return { incoming, body, prepared: preparedHeaders(c) };
}

/** On Node, looks at the result of `c.body`, because reading `c.res` would create a response with `Headers`. */
function preparedHeaders(c: HonoContext): readonly HeaderEntry[] {
  const parts = keptParts(c.body(null));
  return parts !== null && parts[2] === undefined ? [] : [...c.res.headers];
}

/**
 * Reads a handler's response to its end.
 *
 * @throws {LatchkeyError} as `captureResponse` does.
 */
export function captureAnswer(response: Response | undefined, limitBytes: number): Reply | Promise<Reply> {
  const parts = response === undefined ? null : keptParts(response);
  const kept = parts === null ? null : keptBytes(parts[1]);
  if (response === undefined || parts === null || kept === null) return captureResponse(response, limitBytes);
  if (kept.byteLength > limitBytes) throw new LatchkeyError("answer-too-large");
  // Without the status text, which that server does not send: reading it would create the real response.
  return { status: response.status, headers: loneHeader(parts[2]) ?? [...response.headers], body: kept };
}

/**
 * The body of a response of `@hono/node-server` that no code has read yet; null elsewhere. That package keeps status, body and
 * headers in a property until a real response is needed, which costs more than everything else here.
 */
function keptBytes(body: unknown): Uint8Array | null {
  if (body === null) return new Uint8Array(0);
  return typeof body === "string" || body instanceof Uint8Array ? Buffer.from(body as string) : null;
}

/** The field line for headers that consist of one plain entry, as `Headers` would write it. Null: others. */
function loneHeader(headers: unknown): readonly HeaderEntry[] | null {
  if (typeof headers !== "object" || headers === null) return null;
  if (Object.getPrototypeOf(headers) !== Object.prototype) return null;
  const [name, ...others] = Reflect.ownKeys(headers);
  if (typeof name !== "string" || others.length > 0) return null;
  const value = (headers as Readonly<Record<string, unknown>>)[name];
  return plainName.test(name) && typeof value === "string" && plainValue.test(value)
    ? [[name.toLowerCase(), value]]
    : null;
}

const plainName = /^[A-Za-z-]+$/u;
/** Values that `Headers` neither trims nor refuses. */
const plainValue = /^[!-~](?:[ -~]*[!-~])?$/u;

/** Status, body and headers that such a response was created with. */
function keptParts(response: unknown): readonly [status: number, body: unknown, headers: unknown] | null {
  if (typeof response !== "object" || response === null) return null;
  for (const symbol of Object.getOwnPropertySymbols(response)) {
    const kept = (response as Readonly<Record<symbol, unknown>>)[symbol];
    if (!Array.isArray(kept) || kept.length !== 3 || !isFinalStatus(kept[0])) continue;
    return kept as [number, unknown, unknown];
  }
  return null;
}

/** A request's body, which validators may have read through Hono's own cache. */
function createBody(c: HonoContext): { read(limitBytes: number): Promise<BodyReading>; giveBack(): void } {
  let taken: { readonly bytes: Uint8Array; readonly raw: Request } | null = null;
  let unreadStill = false;
  return {
    async read(limitBytes) {
      refuseHttp2(c);
      const { raw, bodyCache } = c.req;
      // Only these two have the body as sent; other cached forms would be serialised anew.
      const cached = bodyCache.arrayBuffer ?? bodyCache.text;
      if (cached !== undefined) return readCached(cached, limitBytes);
      const { formData } = bodyCache;
      if (formData !== undefined) return readForm(await formData);
      const message = messageOf(c) === undefined ? null : untouchedMessage(raw);
      unreadStill = message !== null;
      const reading =
        message === null
          ? await readRequestBytes(raw, limitBytes)
          : leaveUnder(message, await readBytes(message, limitBytes, "unread"));
      if (reading.kind === "bytes") taken = { bytes: reading.bytes, raw };
      return reading.kind === "consumed" ? { kind: "consumed", remedy } : reading;
    },
    giveBack() {
      if (taken !== null && !unreadStill) c.req.raw = unread(taken.raw, taken.bytes);
      unreadStill = false;
    },
  };
}

function refuseHttp2(c: HonoContext): void {
  const message = messageOf(c);
  if (message !== undefined) requireHttp1(message);
}

/** Node's message, which `@hono/node-server` passes in `env`. */
export function messageOf({ env }: HonoContext): IncomingMessage | undefined {
  return ((env ?? {}) as { readonly incoming?: IncomingMessage }).incoming;
}

const remedy =
  "Read it through `c.req.text()`, `json()` or `arrayBuffer()`, or do not read it before the protected handler.";

/** A form that `c.req.parseBody()` or `formData()` has already read: its fields, and digests of its files. */
async function readForm(form: FormData): Promise<BodyReading> {
  const fields: [string, unknown][] = [];
  for (const [name, value] of form) {
    if (typeof value === "string") fields.push([name, value]);
    else {
      const data = new Uint8Array(await value.arrayBuffer());
      fields.push([name, { name: value.name, mimetype: value.type, data }]);
    }
  }
  const value = await uploadedForm(fields, []);
  const opt = 'Or opt in to `fingerprint: "parsed"`, which covers the fields and files of a form.';
  return value === null
    ? { kind: "consumed", remedy }
    : { kind: "parsed", value, remedy: `${remedy} ${opt}` };
}

async function readCached(
  cached: ArrayBuffer | string | Promise<ArrayBuffer | string>,
  limitBytes: number,
): Promise<BodyReading> {
  const body = await cached;
  const bytes = typeof body === "string" ? Buffer.from(body, "utf8") : new Uint8Array(body);
  return bytes.byteLength > limitBytes ? { kind: "too-large" } : { kind: "bytes", bytes };
}

/** Resets the prepared response to its state before the handler. */
export function resetResponse(c: HonoContext, prepared: readonly HeaderEntry[]): void {
  for (const [name] of [...c.res.headers]) c.res.headers.delete(name);
  for (const [name, value] of prepared) c.res.headers.append(name, value);
  c.status(200);
}

/** Clears the prepared response first, because Hono would copy its headers over this one's. */
export function answerWith(c: HonoContext, reply: Reply, prepared: readonly HeaderEntry[]): Response {
  discardUnread(messageOf(c));
  const response = toResponse(reply, prepared);
  c.res = undefined;
  c.res = response;
  return response;
}
