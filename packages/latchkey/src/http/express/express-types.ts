/** The part of Express that Latchkey uses, as in both of its major versions. Apps keep their own types. */
import type { IncomingMessage, ServerResponse } from "node:http";

// Express's own types let an app extend its request here (`auth`, `user` …); those extensions merge with this.
declare global {
  namespace Express {
    interface Request {}
    interface Response {}
  }
}

/** Any value, like Express's own `any`. */
type Loose = ReturnType<JSON["parse"]>;

/** The part of a request that the adapter needs. */
export interface ExpressMessage extends IncomingMessage {
  readonly originalUrl: string;
  body?: unknown;
  res?: ServerResponse | undefined;
}

/** A request, if the app has not annotated its own type. Annotate `tenant: (req: Request) => …` to use Express's own. */
export interface ExpressRequest extends ExpressMessage, Express.Request {
  body: Loose;
  res?: ExpressResponse | undefined;
  readonly params: Loose;
  readonly query: Loose;
  readonly cookies: Loose;
  readonly path: string;
  readonly baseUrl: string;
  readonly ip: string | undefined;
  get(name: string): string | undefined;
  header(name: string): string | undefined;
}

/** A response, if the app has not annotated its own type. */
export interface ExpressResponse extends ServerResponse, Express.Response {
  readonly locals: Loose;
  append(field: string, value?: string | string[]): this;
  cookie(name: string, value: Loose, options?: Loose): this;
  get(field: string): string | undefined;
  json(body?: Loose): this;
  links(links: Loose): this;
  location(url: string): this;
  redirect(url: string): void;
  send(body?: Loose): this;
  sendStatus(code: number): this;
  set(field: string, value?: string | string[]): this;
  status(code: number): this;
  type(type: string): this;
  vary(field: string): this;
}

/** The type of a request's response, which Express's own types declare. */
export type ResponseOf<R extends ExpressMessage> = NonNullable<R["res"]>;

export type ExpressNext = (error?: unknown) => void;
