/** Nest as Latchkey sees it. Apps keep their own types by annotating `tenant: (request: Request) => …`. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { FastifyAnswer } from "../fastify/fastify-types.ts";

/** A value of any shape, as Nest leaves its own. */
type Loose = ReturnType<JSON["parse"]>;

/** What Nest calls an execution context. */
export interface NestHost {
  getType(): string;
  getClass(): { readonly prototype: Loose };
  getHandler(): object;
  switchToHttp(): { getRequest(): Loose; getResponse(): Loose; getNext(): Loose };
}

/** The rest of a request's way to its handler; each `handle()` goes it once more, when it is subscribed to. */
export interface NestCallHandler<S> {
  handle(): S;
}

/** An Observable, as Nest makes them. */
export interface NestStream {
  subscribe(observer: NestObserver): unknown;
}

export interface NestObserver {
  next(value: unknown): void;
  error(error: unknown): void;
  complete(): void;
}

/** What `@UseInterceptors` takes. */
export interface NestInterceptor {
  intercept<S extends NestStream>(host: NestHost, next: NestCallHandler<S>): S;
}

/** What the adapter itself needs of a request: Express's own, or Fastify's, which has Node's in `raw`. */
export interface NestMessage {
  readonly originalUrl: string;
  readonly method: string;
  body?: unknown;
}

/** A request, where the app has not said which. */
export interface NestRequest extends NestMessage {
  body: Loose;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly hostname: string;
  readonly ip: string;
  readonly params: Loose;
  readonly query: Loose;
  readonly url: string;
  /** What guards leave there. */
  readonly user?: Loose;
}

/** One request on either platform. */
export interface NestPlace {
  readonly request: NestMessage;
  readonly message: IncomingMessage;
  readonly res: ServerResponse;
  /** Null on Express. */
  readonly reply: FastifyAnswer | null;
  /** Express's way to its error handlers. */
  readonly next: Loose;
}
