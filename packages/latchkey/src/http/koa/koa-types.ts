/** The part of Koa that Latchkey uses. Apps keep their own types by annotating `tenant: (ctx: Context) => …`. */
import type { IncomingMessage, ServerResponse } from "node:http";

/** Any value: Koa's own types for values that an app has not typed. */
type Loose = ReturnType<JSON["parse"]>;

/** The part of a context that the adapter needs. */
export interface KoaMessage {
  readonly req: IncomingMessage;
  res: ServerResponse;
  readonly method: string;
  readonly originalUrl: string;
  readonly request: object;
  response: object;
  readonly cookies: unknown;
  body: unknown;
  status: number;
  message: string;
  type: string;
  onerror(error: Error): void;
  respond?: boolean | undefined;
}

/** A context, if the app has not annotated its own type. */
export interface KoaContext extends KoaMessage {
  readonly app: Loose;
  readonly cookies: Loose;
  readonly headers: Loose;
  readonly host: string;
  readonly ip: string;
  readonly params: Loose;
  readonly path: string;
  readonly query: Loose;
  readonly request: Loose;
  readonly response: Loose;
  readonly state: Loose;
  readonly url: string;
  body: Loose;
  append(field: string, value: string | string[]): void;
  get(field: string): string;
  redirect(url: string): void;
  remove(field: string): void;
  set(field: string, value: string | string[]): void;
  throw(...properties: Loose[]): never;
  vary(field: string | string[]): void;
}
