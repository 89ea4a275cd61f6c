/** What Nest itself puts around a route. */
import {
  Injectable,
  type PipeTransform,
  type Type,
  UseFilters,
  UseGuards,
  UseInterceptors,
  UsePipes,
} from "@nestjs/common";
import { BaseExceptionFilter } from "@nestjs/core";
import { map, tap, timeout } from "rxjs";
import type { NestMount } from "./frame.ts";

interface Message {
  readonly headers: Readonly<Record<string, string>>;
}
type Loose = ReturnType<JSON["parse"]>;

const guard = {
  async canActivate(host: Loose): Promise<boolean> {
    const http = host.switchToHttp();
    const { headers }: Message = http.getRequest();
    http.getResponse().header("X-Guarded", headers["x-tenant"]);
    return headers["x-tenant"] !== undefined;
  },
};

/** A new object: what pipes make of a value is not what was sent. */
const pipe: PipeTransform = { transform: (value: unknown) => (isPlain(value) ? { ...value } : value) };

function isPlain(value: unknown): value is object {
  return typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}

/** As loggers, serializers and time limits are written. */
const interceptor = {
  intercept: (_host: Loose, next: Loose) =>
    next.handle().pipe(
      timeout(600_000),
      tap(() => {}),
      map((value) => value),
    ),
};

class Filter extends BaseExceptionFilter {}
Injectable()(Filter);

export const around = <App>(): NestMount<App> => ({
  decorate: (protect) => [
    UseFilters(Filter as Type),
    UseGuards(guard),
    UseInterceptors(interceptor),
    protect,
    UseInterceptors(interceptor),
    UsePipes(pipe),
  ],
});
