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

/** Fastify has no raw body: its parsers read a copy that keeps what passes. */
export function keepBodies(app: FastifyApp): Bodies {
  const handlers = new WeakSet<object>();
  const copies = new WeakMap<object, BodyCopy>();
  const keep = (request: object, _reply: unknown, payload: Readable, done: PayloadDone) => {
    const copy = new BodyCopy(payload);
    copies.set(request, copy);
    done(null, copy);
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
      readBody: (limitBytes) => readBody(request, copies.get(request), limitBytes),
    }),
  };
}

function readBody(request: FastifyMessage, copy: BodyCopy | undefined, limitBytes: number): BodyReading {
  const bytes = announcesBody(request.raw) ? (copy?.bytes() ?? null) : new Uint8Array(0);
  if (bytes === null) {
    const { body } = request;
    return body === undefined || body === null
      ? { kind: "consumed", remedy }
      : { kind: "parsed", value: body, remedy };
  }
  return bytes.byteLength > limitBytes ? { kind: "too-large" } : { kind: "bytes", bytes };
}

const remedy =
  "Call fastifyProtect (or fastifyServe) on the instance that has the route, give the route what `protect` returned as its handler, and " +
  'let a content type parser read the body from its payload; or opt in to `fingerprint: "parsed"`.';

type PayloadDone = (error: Error | null, payload: Readable) => void;

/** A body on its way to a parser, kept as it passes. Reads nothing before it is read itself: multipart parsers take `request.raw` instead. */
class BodyCopy extends Readable {
  readonly #source: Readable;
  readonly #chunks: Buffer[] = [];
  #started = false;
  #complete = false;

  constructor(source: Readable) {
    super();
    this.#source = source;
  }

  /** All that has passed; null while the end has not. */
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
