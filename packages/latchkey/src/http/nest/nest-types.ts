/** The part of Nest that Latchkey uses. Apps keep their own types by annotating `tenant: (request: Request) => …`. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { FastifyAnswer } from "../fastify/fastify-types.ts";

/** Any value, like Nest's own `any`. */
type Loose = ReturnType<JSON["parse"]>;

/** Nest's execution context. */
export interface NestHost {
  getType(): string;
  getClass(): { readonly prototype: Loose };
  getHandler(): object;
  switchToHttp(): { getRequest(): Loose; getResponse(): Loose; getNext(): Loose };
}

/** The rest of the pipeline up to the handler. Each subscription to `handle()` runs it once more. */
export interface NestCallHandler<S> {
  handle(): S;
}

/** An Observable. */
export interface NestStream {
  subscribe(observer: NestObserver): unknown;
}

export interface NestObserver {
  next(value: unknown): void;
  error(error: unknown): void;
  complete(): void;
}

/** An argument of `@UseInterceptors`. */
export interface NestInterceptor {
  intercept<S extends NestStream>(host: NestHost, next: NestCallHandler<S>): S;
}

/** The part of a request that the adapter needs: Express's own, or Fastify's, which has Node's in `raw`. */
export interface NestMessage {
  readonly originalUrl: string;
  readonly method: string;
  body?: unknown;
}

/** A request, if the app has not annotated its own type. */
export interface NestRequest extends NestMessage {
  body: Loose;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly hostname: string;
  readonly ip: string;
  readonly params: Loose;
  readonly query: Loose;
  readonly url: string;
  /** Set by guards. */
  readonly user?: Loose;
}

/** One request on either platform. */
export interface NestPlace {
  readonly request: NestMessage;
  readonly message: IncomingMessage;
  readonly res: ServerResponse;
  /** Null on Express. */
  readonly reply: FastifyAnswer | null;
  /** Passes an error to Express's error handlers. */
  readonly next: Loose;
}
