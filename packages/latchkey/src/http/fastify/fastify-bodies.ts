/** Keeps the bytes of bodies that Fastify parses. */
import { Readable } from "node:stream";
import { announcesBody, headerLines, peekBytes, readBytes } from "../node-response/node-messages.ts";
import type { BodyReading, Incoming } from "../protocol/incoming.ts";
import { parsedReading } from "../protocol/request-body.ts";
import { isMultipart, uploadedForm } from "../shared/uploads.ts";
import type { FastifyApp, FastifyMessage } from "./fastify-types.ts";

export interface Bodies {
  /** Keeps the bytes that arrive for the routes of this handler. */
  keepFor(handler: object): void;
  incomingOf(request: FastifyMessage): Incoming;
}

/** A stream through which parsers read a body, and the bytes that have passed. */
interface KeptBody {
  /**
   * The whole body; null until its end has passed.
   *
   * @param anyReader also counts a body as read that other code read from the message itself, as multipart parsers do
   */
  bytes(anyReader: boolean): Uint8Array | null;
}

/** For assignment by key, which is several times as fast as `Reflect`. */
type KeepingRequest = FastifyMessage & Record<symbol, KeptBody | undefined>;

/** Fastify keeps no raw body, so its parsers are given a stream that keeps the bytes. */
export function keepBodies(app: FastifyApp): Bodies {
  const handlers = new WeakSet<object>();
  /** Handlers that no route has had yet. */
  const unseen = new Set<object>();
  // A property of the request, because a WeakMap of all requests burdens the garbage collector.
  const bodyKey = Symbol("latchkey.body");
  const variantKey = Symbol("latchkey.variant");
  app.addHook("onRoute", (route: AddedRoute) => {
    const isOurs = handlers.has(route.handler);
    if (isOurs) unseen.delete(route.handler);
    // Instrumentation may wrap handlers in an earlier hook, which hides them. So while handlers are missing, any route may be
    // protected; for these, bytes are kept only up to the parser's limit.
    if (!isOurs && unseen.size === 0) return;
    const limitBytes = isOurs ? Number.POSITIVE_INFINITY : parserLimitOf(app, route);
    const variant = variantOf(route.constraints ?? {});
    const note: PreParsing = (request, _reply, payload, done) => {
      Reflect.set(request, variantKey, variant);
      done(null, payload);
    };
    const keep: PreParsing = (request, _reply, payload, done) => {
      const body = keptBody(request, payload, limitBytes);
      (request as KeepingRequest)[bodyKey] = body;
      done(null, body.payload);
    };
    route.preParsing = [
      variant === undefined ? [] : note,
      route.preParsing ?? [],
      keep,
    ].flat() as PreParsing[];
  });
  return {
    keepFor(handler) {
      handlers.add(handler);
      unseen.add(handler);
    },
    incomingOf: (request) => ({
      method: request.method,
      target: request.originalUrl,
      variant: (request as FastifyMessage & Record<symbol, string | undefined>)[variantKey],
      header: (name) => headerLines(request.raw, name),
      readBody: (limitBytes) => readBody(request, (request as KeepingRequest)[bodyKey], limitBytes),
    }),
  };
}

interface AddedRoute {
  readonly handler: object;
  readonly constraints?: object;
  readonly bodyLimit?: number;
  preParsing?: PreParsing | readonly PreParsing[];
}

type PreParsing = (request: FastifyMessage, reply: unknown, payload: Readable, done: PayloadDone) => void;

function parserLimitOf(app: FastifyApp, route: AddedRoute): number {
  return route.bodyLimit ?? app.initialConfig?.bodyLimit ?? 1024 * 1024;
}

function keptBody(request: FastifyMessage, payload: Readable, limitBytes: number): TappedBody | BodyCopy {
  const kept = new KeptChunks(limitBytes);
  const own = payload === request.raw && !(tapKey in payload);
  // A tap misses bytes that have already arrived. Multipart parsers read the message itself, so a copy would miss all.
  const tapped =
    own && (isUntouched(payload) || (isMultipart(request.raw.headers["content-type"]) && isUnread(payload)));
  return tapped ? new TappedBody(payload, kept) : new BodyCopy(payload, kept);
}

/** Routes with the same path differ in their constraints, such as a version or a host. */
function variantOf(constraints: object): string | undefined {
  const entries = Object.entries(constraints).map(([name, value]) => [name, String(value)]);
  return entries.length === 0 ? undefined : JSON.stringify(entries.sort());
}

function readBody(
  request: FastifyMessage,
  body: KeptBody | undefined,
  limitBytes: number,
): BodyReading | Promise<BodyReading> {
  const { raw, body: value } = request;
  const upload = isMultipart(raw.headers["content-type"]);
  const bytes = announcesBody(raw) ? (body?.bytes(upload) ?? null) : new Uint8Array(0);
  if (bytes === null) {
    // The parser has left the request to the handler (multipart, or a proxy's pass-through), or has made a value of something
    // else.
    if (isUnread(raw)) return readBytes(raw, limitBytes, "unread");
    return upload && value !== undefined && value !== null
      ? readForm(request, body, limitBytes)
      : parsedReading(value, raw.headers["content-type"], remedy);
  }
  return bytes.byteLength > limitBytes ? { kind: "too-large" } : { kind: "bytes", bytes };
}

/** Reads a form of @fastify/multipart, which has seen the last part but perhaps not the end of the message. */
async function readForm(
  request: FastifyMessage,
  body: KeptBody | undefined,
  limitBytes: number,
): Promise<BodyReading> {
  const { raw } = request;
  if (!raw.readableEnded && !raw.destroyed) {
    await new Promise((resolve) =>
      raw.once("end", resolve).once("close", resolve).once("error", resolve).resume(),
    );
  }
  const bytes = body?.bytes(true) ?? null;
  if (bytes !== null) return bytes.byteLength > limitBytes ? { kind: "too-large" } : { kind: "bytes", bytes };
  const value = await uploadedForm(request.body, [request, raw]);
  return value === null ? { kind: "consumed", remedy } : { kind: "parsed", value, remedy };
}

function isUnread(raw: Readable): boolean {
  return !raw.readableDidRead && !raw.readableEnded && !raw.destroyed;
}

const remedy =
  "Call fastifyProtect (or fastifyServe) on the instance that has the route, use the result of `protect` as the route's handler, and " +
  'let a content type parser read the body from its payload; or opt in to `fingerprint: "parsed"`.';

type PayloadDone = (error: Error | null, payload: Readable) => void;

/** Whether no part of a body has arrived: a tap would miss bytes that are already in the stream's buffer. */
function isUntouched(stream: Readable): boolean {
  return stream.readableLength === 0 && !stream.readableDidRead && !stream.readableEnded;
}

class KeptChunks {
  readonly #limitBytes: number;
  readonly #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  /** Copies the chunk, because a reader may change it in place. */
  add(chunk: Buffer | string, encoding?: BufferEncoding): void {
    this.#bytes += chunk.length;
    if (this.#isOver()) this.#chunks.length = 0;
    else this.#chunks.push(typeof chunk === "string" ? Buffer.from(chunk, encoding) : Buffer.from(chunk));
  }

  /** Null: the body exceeded the limit. */
  all(): Uint8Array | null {
    if (this.#isOver()) return null;
    const [only = null] = this.#chunks;
    return this.#chunks.length === 1 ? only : Buffer.concat(this.#chunks);
  }

  #isOver(): boolean {
    return this.#bytes > this.#limitBytes;
  }
}

/** The property of a message that holds its tap. */
const tapKey = Symbol("latchkey.tap");

/**
 * Keeps a message's body as the message receives it, at a tenth of another stream's cost. Parsers get a proxy of the message,
 * which notes that they use the payload: parsers that read `request.raw` may not have read all of it.
 *
 * Messages get no closure: with one, requests stay in memory until the old generation is collected.
 */
class TappedBody implements KeptBody {
  readonly payload: Readable;
  readonly #message: Readable;
  readonly #push: Readable["push"];
  readonly #kept: KeptChunks;
  #usedPayload = false;

  constructor(message: Tapped, kept: KeptChunks) {
    this.#message = message;
    this.#push = message.push;
    this.#kept = kept;
    const arrived = message.readableLength > 0 ? peekBytes(message) : null;
    if (arrived !== null) kept.add(arrived);
    message[tapKey] = this;
    message.push = pushThroughTap;
    this.payload = new Proxy(message, new PayloadProxy(this));
  }

  push(chunk: Buffer | string | null | undefined, encoding?: BufferEncoding): boolean {
    if (chunk !== null && chunk !== undefined) this.#kept.add(chunk, encoding);
    return this.#push.call(this.#message, chunk, encoding);
  }

  /** Called for every method of the proxy, because every use of a stream begins with one. */
  use(method: (...args: unknown[]) => unknown, args: readonly unknown[]): unknown {
    this.#usedPayload = true;
    const result: unknown = Reflect.apply(method, this.#message, args);
    return result === this.#message ? this.payload : result;
  }

  bytes(anyReader: boolean): Uint8Array | null {
    const complete = (this.#usedPayload || anyReader) && this.#message.readableEnded;
    return complete ? this.#kept.all() : null;
  }
}

type Tapped = Readable & { [tapKey]?: TappedBody };

function pushThroughTap(this: Tapped, chunk: Buffer | string | null, encoding?: BufferEncoding): boolean {
  return (this[tapKey] as TappedBody).push(chunk, encoding);
}

class PayloadProxy implements ProxyHandler<Readable> {
  readonly #body: TappedBody;

  constructor(body: TappedBody) {
    this.#body = body;
  }

  get(target: Readable, name: PropertyKey): unknown {
    const value: unknown = Reflect.get(target, name, target);
    return typeof value === "function"
      ? (...args: unknown[]) => this.#body.use(value as Method, args)
      : value;
  }

  set(target: Readable, name: PropertyKey, value: unknown): boolean {
    return Reflect.set(target, name, value, target);
  }
}

type Method = (...args: unknown[]) => unknown;

/** Keeps a body on its way to a parser. Reads only when it is read, because multipart parsers read `request.raw` instead. */
class BodyCopy extends Readable implements KeptBody {
  readonly payload: Readable = this;
  readonly #source: Readable;
  readonly #kept: KeptChunks;
  /** Whether no part of the source had been read before. */
  readonly #isWhole: boolean;
  #started = false;
  #complete = false;

  constructor(source: Readable, kept: KeptChunks) {
    super();
    this.#source = source;
    this.#kept = kept;
    this.#isWhole = !source.readableDidRead;
  }

  bytes(): Uint8Array | null {
    const complete = this.#complete && this.#isWhole;
    return complete ? this.#kept.all() : null;
  }

  /** As in a request, a client that hangs up causes an error only if there are error listeners. */
  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    done(this.listenerCount("error") > 0 ? error : null);
  }

  /** Fastify compares this with the announced length of a decompressed body. */
  get receivedEncodedLength(): unknown {
    return Reflect.get(this.#source, "receivedEncodedLength");
  }

  // `Readable.from` with an async generator costs four times as much.
  override _read(): void {
    const source = this.#source;
    if (this.#started) {
      source.resume();
      return;
    }
    this.#started = true;
    source.on("data", (chunk: Buffer | string) => {
      this.#kept.add(chunk);
      if (!this.push(chunk)) source.pause();
    });
    source.on("end", () => {
      this.#complete = true;
      this.push(null);
    });
    source.on("error", (error) => this.destroy(error));
    source.on("close", () => {
      if (!this.#complete) this.destroy(new Error("The request ended before its body was complete"));
    });
  }
}
