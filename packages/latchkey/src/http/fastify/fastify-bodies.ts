/** The bytes of bodies that Fastify parses. */
import { Readable } from "node:stream";
import { isMultipart, uploadedForm } from "../express/uploads.ts";
import { announcesBody, headerLines, peekBytes, readBytes } from "../node-response/node-messages.ts";
import type { BodyReading, Incoming } from "../protocol/incoming.ts";
import { parsedReading } from "../protocol/request-body.ts";
import type { FastifyApp, FastifyMessage } from "./fastify-types.ts";

export interface Bodies {
  /** Keeps the bytes that arrive for the routes of this handler. */
  keepFor(handler: object): void;
  incomingOf(request: FastifyMessage): Incoming;
}

/** What parsers read a body through, and what has passed through it. */
interface KeptBody {
  /**
   * All of the body; null while its end has not passed.
   *
   * @param anyReader whether it counts as read, too, when other code has read the message past the payload: multipart parsers do
   */
  bytes(anyReader: boolean): Uint8Array | null;
}

/** By assignment, which is several times as fast as by `Reflect`. */
type KeepingRequest = FastifyMessage & Record<symbol, KeptBody | undefined>;

/** Fastify has no raw body: its parsers read through something that keeps what passes. */
export function keepBodies(app: FastifyApp): Bodies {
  const handlers = new WeakSet<object>();
  /** Those that no route has had as its handler yet. */
  const unseen = new Set<object>();
  // A property of the request: a WeakMap of every request is a burden on the garbage collector.
  const bodyKey = Symbol("latchkey.body");
  const variantKey = Symbol("latchkey.variant");
  app.addHook("onRoute", (route: AddedRoute) => {
    const isOurs = handlers.has(route.handler);
    if (isOurs) unseen.delete(route.handler);
    // Instrumentation wraps handlers in a hook that comes before this one, and does not say whose. So every route may be one of
    // those that are missing; what is no protected route's is kept no further than a parser would read it.
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
  // What has arrived already has passed every tap. Multipart parsers read the message itself, past a copy.
  const tapped =
    own && (isUntouched(payload) || (isMultipart(request.raw.headers["content-type"]) && isUnread(payload)));
  return tapped ? new TappedBody(payload, kept) : new BodyCopy(payload, kept);
}

/** Routes with one path are distinguished by their constraints: a version, a host. */
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
    // A parser that leaves the request to the handler (of multipart, or one that passes the payload on to a proxy), or has made
    // a value of something else.
    if (isUnread(raw)) return readBytes(raw, limitBytes, "unread");
    return upload && value !== undefined && value !== null
      ? readForm(request, body, limitBytes)
      : parsedReading(value, raw.headers["content-type"], remedy);
  }
  return bytes.byteLength > limitBytes ? { kind: "too-large" } : { kind: "bytes", bytes };
}

/** What @fastify/multipart attaches: it has seen the last part, but perhaps not the end of the message. */
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
  "Call fastifyProtect (or fastifyServe) on the instance that has the route, give the route what `protect` returned as its handler, and " +
  'let a content type parser read the body from its payload; or opt in to `fingerprint: "parsed"`.';

type PayloadDone = (error: Error | null, payload: Readable) => void;

/** Whether nothing of a body has arrived: what is in the stream's buffer already has passed every tap. */
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

  /** A copy: a reader may change the chunk in place. */
  add(chunk: Buffer | string, encoding?: BufferEncoding): void {
    this.#bytes += chunk.length;
    if (this.#isOver()) this.#chunks.length = 0;
    else this.#chunks.push(typeof chunk === "string" ? Buffer.from(chunk, encoding) : Buffer.from(chunk));
  }

  /** Null: they were more than the limit. */
  all(): Uint8Array | null {
    if (this.#isOver()) return null;
    const [only = null] = this.#chunks;
    return this.#chunks.length === 1 ? only : Buffer.concat(this.#chunks);
  }

  #isOver(): boolean {
    return this.#bytes > this.#limitBytes;
  }
}

/** Under which a message keeps its tap. */
const tapKey = Symbol("latchkey.tap");

/**
 * A message's own body, kept as the message receives it: a tenth of what another stream costs. Parsers get a stand-in for
 * the message, which tells that they have read the payload: those that take `request.raw` may not have read it as a whole.
 *
 * No closure of its own is put on a message: with one, requests stay in memory until the old generation is collected.
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
    this.payload = new Proxy(message, new StandIn(this));
  }

  push(chunk: Buffer | string | null | undefined, encoding?: BufferEncoding): boolean {
    if (chunk !== null && chunk !== undefined) this.#kept.add(chunk, encoding);
    return this.#push.call(this.#message, chunk, encoding);
  }

  /** Whatever is done with a stream begins with one of its methods. */
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

class StandIn implements ProxyHandler<Readable> {
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

/** A body on its way to a parser, kept as it passes. Reads nothing before it is read itself: multipart parsers take `request.raw` instead. */
class BodyCopy extends Readable implements KeptBody {
  readonly payload: Readable = this;
  readonly #source: Readable;
  readonly #kept: KeptChunks;
  /** Whether the beginning is still unread. */
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

  /** As a request does: a client that hangs up is an error only for listeners of errors. */
  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    done(this.listenerCount("error") > 0 ? error : null);
  }

  /** By which Fastify compares a decompressed body with the announced length. */
  get receivedEncodedLength(): unknown {
    return Reflect.get(this.#source, "receivedEncodedLength");
  }

  // Not an async generator under `Readable.from`, which costs four times as much.
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
