/** The part of Fastify that Latchkey uses. Apps keep their own types by annotating `tenant: (request: FastifyRequest) => …`. */
import type { IncomingMessage, ServerResponse } from "node:http";

/** Any value: Fastify's own types for values that an app has not typed. */
type Loose = ReturnType<JSON["parse"]>;

/** An instance: the app, or a plugin's. */
export interface FastifyApp {
  readonly initialConfig?: { readonly bodyLimit?: number };
  addHook(name: "onRoute", hook: (route: Loose) => void): unknown;
  addHook(
    name: "onSend",
    hook: (request: Loose, reply: Loose, payload: unknown, done: SendDone) => void,
  ): unknown;
}

/** Lets Fastify continue with the payload that a hook has returned. */
export type SendDone = (error: Error | null, payload?: unknown) => void;

/** The part of a request that the adapter needs. */
export interface FastifyMessage {
  readonly raw: IncomingMessage;
  readonly method: string;
  readonly originalUrl: string;
  readonly body: unknown;
}

/** The part of a reply that the adapter needs. */
export interface FastifyAnswer {
  readonly raw: ServerResponse;
  readonly request: Loose;
  readonly log: Loose;
  readonly sent: boolean;
  getHeaders(): FastifyHeaders;
  // Fastify's own methods return replies whose types depend on the route.
  code(status: Loose): Loose;
  header(name: string, value: Loose): Loose;
  hijack(): Loose;
  removeHeader(name: string): Loose;
  send(payload?: Loose): Loose;
  // A property and not a method, because TypeScript would take an object with such a method for a promise.
  readonly then: Loose;
}

export type FastifyHeaders = Readonly<Record<string, number | string | string[] | undefined>>;

/** A request, if the app has not annotated its own type. */
export interface FastifyRequest extends FastifyMessage {
  readonly body: Loose;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly hostname: string;
  readonly id: string;
  readonly ip: string;
  readonly log: Loose;
  readonly params: Loose;
  readonly query: Loose;
  readonly url: string;
}

/** A reply, if the app has not annotated its own type. */
export interface FastifyReply extends FastifyAnswer {
  readonly log: Loose;
  statusCode: number;
  code(status: number): this;
  getHeader(name: string): number | string | string[] | undefined;
  header(name: string, value?: Loose): this;
  headers(values: Loose): this;
  redirect(url: string, status?: number): this;
  send(payload?: Loose): this;
  status(status: number): this;
  type(type: string): this;
}
