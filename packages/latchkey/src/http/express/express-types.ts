/** Express as Latchkey sees it. Apps keep their own types: what is here is what both of its major versions share. */
import type { IncomingMessage, ServerResponse } from "node:http";

// The name under which Express's own types let an app describe its request (`auth`, `user` …); what it adds merges here.
declare global {
  namespace Express {
    interface Request {}
    interface Response {}
  }
}

/** A value of any shape, as Express leaves its own. */
type Loose = ReturnType<JSON["parse"]>;

/** What the adapter itself needs of a request. */
export interface ExpressMessage extends IncomingMessage {
  readonly originalUrl: string;
  body?: unknown;
  res?: ServerResponse | undefined;
}

/** A request, where the app has not said which. Annotate `tenant: (req: Request) => …` to work with Express's own. */
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

/** A response, where the app has not said which. */
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

/** The response that belongs to a request: Express's own types say it themselves. */
export type ResponseOf<R extends ExpressMessage> = NonNullable<R["res"]>;

export type ExpressNext = (error?: unknown) => void;
