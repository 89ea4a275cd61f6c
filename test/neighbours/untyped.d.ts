/** What the tests use of packages that have no types. */
declare module "koa-passport" {
  import type { Middleware } from "koa";
  export class KoaPassport {
    use(strategy: unknown): this;
    initialize(): Middleware;
    authenticate(strategy: string, options: object): Middleware;
  }
}

declare module "passport-http-bearer" {
  import type { Strategy as PassportStrategy } from "passport";
  export const Strategy: new (options: object, verify: unknown) => PassportStrategy;
}

declare module "koa-pino-logger" {
  import type { Middleware } from "koa";
  // biome-ignore lint/style/noDefaultExport: it is the package's.
  export default function logger(options: object, stream: NodeJS.WritableStream): Middleware;
}

declare module "@uswitch/koa-timeout" {
  import type { Middleware } from "koa";

  const exported: { default(milliseconds: number, options?: { readonly status?: number }): Middleware };
  // biome-ignore lint/style/noDefaultExport: to Node, all that a CommonJS module exports.
  export default exported;
}

declare module "express-timeout-handler" {
  import type { RequestHandler } from "express";
  export function handler(options: { readonly timeout: number }): RequestHandler;
}
