/** Fastify as Latchkey sees it. Apps keep their own types by annotating `tenant: (request: FastifyRequest) => …`. */
import type { IncomingMessage, ServerResponse } from "node:http";

/** A value of any shape, as Fastify leaves its own where an app has not said which. */
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

/** Lets Fastify go on with what a hook has made of a payload. */
export type SendDone = (error: Error | null, payload?: unknown) => void;

/** What the adapter itself needs of a request. */
export interface FastifyMessage {
  readonly raw: IncomingMessage;
  readonly method: string;
  readonly originalUrl: string;
  readonly body: unknown;
}

/** What the adapter itself needs of a reply. */
export interface FastifyAnswer {
  readonly raw: ServerResponse;
  readonly request: Loose;
  readonly log: Loose;
  readonly sent: boolean;
  getHeaders(): FastifyHeaders;
  // Fastify's own methods return replies whose types depend on the route's.
  code(status: Loose): Loose;
  header(name: string, value: Loose): Loose;
  hijack(): Loose;
  removeHeader(name: string): Loose;
  send(payload?: Loose): Loose;
  // Declared as a property: an object with a method of this name would be taken for a promise.
  readonly then: Loose;
}

export type FastifyHeaders = Readonly<Record<string, number | string | string[] | undefined>>;

/** A request, where the app has not said which. */
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

/** A reply, where the app has not said which. */
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
