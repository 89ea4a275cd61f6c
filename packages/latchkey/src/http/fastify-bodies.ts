/** The bytes of bodies that Fastify parses. */
import { Readable } from "node:stream";
import type { FastifyApp, FastifyMessage } from "./fastify-types.ts";
import type { BodyReading, Incoming } from "./incoming.ts";
import { announcesBody, headerLines } from "./node-messages.ts";

export interface Bodies {
  /** Keeps the bytes that arrive for the routes of this handler. */
  keepFor(handler: object): void;
  incomingOf(request: FastifyMessage): Incoming;
}

/** What has passed of a body on its way to a parser. */
interface KeptBody {
  /** All of the body; null while its end has not passed. */
  bytes(): Uint8Array | null;
}

/** Fastify has no raw body: what its parsers read is kept as it passes. */
export function keepBodies(app: FastifyApp): Bodies {
  const handlers = new WeakSet<object>();
  // A property of the request: a WeakMap of every request is a burden on the garbage collector.
  const bodyKey = Symbol("latchkey.body");
  const keep = (request: FastifyMessage, _reply: unknown, payload: Readable, done: PayloadDone) => {
    if (payload === request.raw && isUntouched(payload)) {
      keepOn(request, bodyKey, new TappedBody(payload));
      done(null, payload);
    } else {
      const copy = new BodyCopy(payload);
      keepOn(request, bodyKey, copy);
      done(null, copy);
    }
  };
  app.addHook("onRoute", (route: { handler: object; preParsing?: unknown }) => {
    if (handlers.has(route.handler)) route.preParsing = [route.preParsing ?? [], keep].flat();
  });
  return {
    keepFor: (handler) => handlers.add(handler),
    incomingOf: (request) => ({
      method: request.method,
      target: request.originalUrl,
      header: (name) => headerLines(request.raw, name),
      readBody: (limitBytes) =>
        readBody(request, (request as FastifyMessage & Record<symbol, KeptBody>)[bodyKey], limitBytes),
    }),
  };
}

function readBody(request: FastifyMessage, body: KeptBody | undefined, limitBytes: number): BodyReading {
  const bytes = announcesBody(request.raw) ? (body?.bytes() ?? null) : new Uint8Array(0);
  if (bytes === null) {
    const { body: value } = request;
    return value === undefined || value === null
      ? { kind: "consumed", remedy }
      : { kind: "parsed", value, remedy };
  }
  return bytes.byteLength > limitBytes ? { kind: "too-large" } : { kind: "bytes", bytes };
}

/** By assignment: as fast as any other property, which a definition, or `Reflect.set`, is not. */
function keepOn(request: FastifyMessage, key: symbol, body: KeptBody): void {
  (request as FastifyMessage & Record<symbol, unknown>)[key] = body;
}

const remedy =
  "Call fastifyProtect (or fastifyServe) on the instance that has the route, give the route what `protect` returned as its handler, and " +
  'let a content type parser read the body to its end; or opt in to `fingerprint: "parsed"`.';

type PayloadDone = (error: Error | null, payload: Readable) => void;

/** Whether nothing of a body has arrived: what is in the stream's buffer already has passed every tap. */
function isUntouched(stream: Readable): boolean {
  return (
    stream.readableLength === 0 && !stream.readableDidRead && !stream.readableEnded && !(tapKey in stream)
  );
}

/** Under which a message keeps its tap. */
const tapKey = Symbol("latchkey.tap");

type Tapped = Readable & { [tapKey]?: TappedBody };

/**
 * A message's own body, kept as the message receives it: a tenth of what another stream costs. Whoever reads it, all of it
 * has passed here once it has ended.
 *
 * No closure of its own is put on a message: with one, requests stay in memory until the old generation is collected.
 */
class TappedBody implements KeptBody {
  readonly #message: Readable;
  readonly #push: Readable["push"];
  readonly #chunks: Buffer[] = [];

  constructor(message: Tapped) {
    this.#message = message;
    this.#push = message.push;
    message[tapKey] = this;
    message.push = pushThroughTap;
  }

  push(chunk: Buffer | string | null | undefined, encoding?: BufferEncoding): boolean {
    if (chunk !== null && chunk !== undefined) {
      this.#chunks.push(typeof chunk === "string" ? Buffer.from(chunk, encoding) : chunk);
    }
    return this.#push.call(this.#message, chunk, encoding);
  }

  bytes(): Uint8Array | null {
    if (!this.#message.readableEnded) return null;
    const [only] = this.#chunks;
    return only !== undefined && this.#chunks.length === 1 ? only : Buffer.concat(this.#chunks);
  }
}

function pushThroughTap(this: Tapped, chunk: Buffer | string | null, encoding?: BufferEncoding): boolean {
  return this[tapKey]?.push(chunk, encoding) ?? false;
}

/** A body on its way to a parser, kept as it passes. Reads nothing before it is read itself: multipart parsers take `request.raw` instead. */
class BodyCopy extends Readable implements KeptBody {
  readonly #source: Readable;
  readonly #chunks: Buffer[] = [];
  #started = false;
  #complete = false;

  constructor(source: Readable) {
    super();
    this.#source = source;
  }

  bytes(): Uint8Array | null {
    return this.#complete ? Buffer.concat(this.#chunks) : null;
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
      this.#chunks.push(Buffer.from(chunk as Buffer));
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
