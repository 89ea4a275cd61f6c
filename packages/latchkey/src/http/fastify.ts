/** Fastify 5. */
import { Readable } from "node:stream";
import type { HandlerContext } from "../attempt/attempt.ts";
import type { Execution } from "../engine/classify.ts";
import type { Latchkey } from "../latchkey.ts";
import type { Operation } from "../operation.ts";
import { createExchange } from "./exchange.ts";
import { Passage } from "./fastify-passage.ts";
import type {
  FastifyAnswer,
  FastifyApp,
  FastifyMessage,
  FastifyReply,
  FastifyRequest,
} from "./fastify-types.ts";
import { submitHeld } from "./held-exchange.ts";
import type { HttpOptions, RouteOptions } from "./http-options.ts";
import type { BodyReading } from "./incoming.ts";
import { announcesBody, headerLines } from "./node-messages.ts";

/** A handler that is handed over: it is given `tx` (under `transaction`) and `attempt`, and answers as any of Fastify's. */
export type FastifyHandler<Req, Rep, Tx, E extends Execution> = (
  request: Req,
  reply: Rep,
  context: HandlerContext<Tx, E>,
) => unknown;

/** Protects one route. What it returns is the route's handler; hooks up to `preHandler` come before it. */
export type FastifyProtect<R extends FastifyMessage, Tx> = <
  E extends Execution,
  Req extends FastifyMessage = R,
  Rep extends FastifyAnswer = FastifyReply,
>(
  operation: Operation<E>,
  handler: FastifyHandler<Req, Rep, Tx, E>,
  overrides?: RouteOptions<R>,
) => (request: Req, reply: Rep) => Promise<void>;

/**
 * Makes `protect(operation, handler)` for the routes of a Fastify instance and of the plugins in it. Call it before
 * registering them.
 *
 * The answer is captured after serialisation, by an `onSend` hook that this call adds: hooks that were there earlier act
 * on what is stored, those added later (compression, cookies …) on each answer as it is sent, first or replayed. Every
 * hook runs once for each request. A handler that throws is rolled back and its error goes to Fastify's error handler.
 *
 * Bytes of the body are kept while content type parsers read them; Fastify's own `bodyLimit` comes first. A parser that
 * reads `request.raw` instead (multipart) leaves nothing for the fingerprint.
 *
 * @throws {TypeError} when an option is missing or out of range.
 */
export function fastifyProtect<Tx, R extends FastifyMessage = FastifyRequest>(
  app: FastifyApp,
  latchkey: Latchkey<Tx>,
  options: HttpOptions<R>,
): FastifyProtect<R, Tx> {
  const exchange = createExchange<R, Tx>(latchkey, options);
  const passages = new WeakMap<object, Passage>();
  const bodies = keepBodies(app);
  app.addHook("onSend", (request, reply, payload, done) => {
    const passage = passages.get(request);
    if (passage === undefined) done(null, payload);
    else passage.onSend(reply, payload, done);
  });
  return <E extends Execution, Req extends FastifyMessage, Rep extends FastifyAnswer>(
    operation: Operation<E>,
    handler: FastifyHandler<Req, Rep, Tx, E>,
    overrides?: RouteOptions<R>,
  ) => {
    const submit = exchange.route(operation, overrides);
    const { answerHoldBytes: limitBytes } = operation.settings;
    async function protectedHandler(this: unknown, request: Req, reply: Rep): Promise<void> {
      const passage = new Passage(reply);
      passages.set(request, passage);
      const incoming = {
        method: request.method,
        target: request.originalUrl,
        header: (name: string) => headerLines(request.raw, name),
        readBody: async (bodyLimitBytes: number) => bodies.read(request, bodyLimitBytes),
      };
      const run = (own: FastifyAnswer, context: HandlerContext<Tx, E>) =>
        handler.call(this, request, own as Rep, context);
      // R is what the adapter's options know of a request, Req what this route knows of the same one.
      const outcome = await submitHeld(
        submit,
        request as FastifyMessage as R,
        incoming,
        { res: reply.raw, limitBytes },
        (_view, context, report) => passage.run((own) => run(own, context), report),
      ).catch((error: unknown) => {
        passage.open();
        throw error;
      });
      if (outcome.kind !== "pass") {
        passage.close(outcome);
        return reply as unknown as Promise<void>;
      }
      passage.open();
      // An outcome of operations without `tx` alone, whose whole context is the attempt.
      const result = run(reply, { attempt: outcome.attempt } as HandlerContext<Tx, E>);
      // A handler that returns nothing at all will send; Fastify waits for the reply, not for this promise.
      return (result === undefined ? reply : result) as Promise<void>;
    }
    bodies.keepFor(protectedHandler);
    return protectedHandler;
  };
}

interface Bodies {
  /** Keeps the bytes that arrive for the routes of this handler. */
  keepFor(handler: object): void;
  read(request: FastifyMessage, limitBytes: number): BodyReading;
}

/** Fastify has no raw body: its parsers read a copy that keeps what passes. */
function keepBodies(app: FastifyApp): Bodies {
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
    read(request, limitBytes) {
      const bytes = announcesBody(request.raw) ? (copies.get(request)?.bytes() ?? null) : new Uint8Array(0);
      if (bytes === null) {
        const { body } = request;
        return body === undefined || body === null
          ? { kind: "consumed", remedy }
          : { kind: "parsed", value: body, remedy };
      }
      return bytes.byteLength > limitBytes ? { kind: "too-large" } : { kind: "bytes", bytes };
    },
  };
}

const remedy =
  "Call fastifyProtect on the instance that has the route, give the route what `protect` returned as its handler, and " +
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
