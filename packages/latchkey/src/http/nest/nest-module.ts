/** `LatchkeyModule`: a latchkey in a Nest app, with its routes, worker and shutdown. */

import type { CloseOptions } from "../../execution/lifecycle.ts";
import { checkOptions, type OptionNames } from "../../known-options.ts";
import type { Latchkey } from "../../latchkey.ts";
import type { WorkerOptions } from "../../workers/worker.ts";
import type { HttpOptions } from "../protocol/http-options.ts";
import { LatchkeyOpenApi } from "./nest-openapi.ts";
import { LatchkeyRoutes } from "./nest-routes.ts";
import { LatchkeyHealthIndicator, LatchkeyService } from "./nest-service.ts";
import type { NestRequest } from "./nest-types.ts";

/** Any value, like Nest's own types of providers and tokens. */
type Loose = ReturnType<JSON["parse"]>;

/** The token of the app's latchkey: `@Inject(LATCHKEY) latchkey: Latchkey<PgTx<pg.Pool>>`. */
export const LATCHKEY: unique symbol = Symbol("LATCHKEY");

const OPTIONS = Symbol("LATCHKEY_OPTIONS");

export interface LatchkeyModuleOptions<Tx, R = NestRequest> {
  /** From `createLatchkey`. The module closes it when the app ends. */
  readonly latchkey: Latchkey<Tx>;
  /** The options of HTTP adapters, such as `tenant`. */
  readonly http: HttpOptions<R>;
  /**
   * Options of the worker that this process starts in `onApplicationBootstrap`. `false`: no worker, because another process has
   * one or because this one is frozen between requests. Default: a worker with default options.
   */
  readonly worker?: WorkerOptions | false;
  /** How long the app's shutdown waits for running work. Default 25 seconds. */
  readonly shutdown?: CloseOptions;
}

const optionNames = {
  latchkey: true,
  http: true,
  worker: true,
  shutdown: true,
} as const satisfies OptionNames<LatchkeyModuleOptions<never>>;

interface ModuleScope {
  /** Whether controllers in all modules can be protected without importing this module. Default true. */
  readonly isGlobal?: boolean;
}

/** A class that provides the options, for `useClass` and `useExisting`. */
export interface LatchkeyOptionsFactory<Tx, R = NestRequest> {
  createLatchkeyOptions(): LatchkeyModuleOptions<Tx, R> | Promise<LatchkeyModuleOptions<Tx, R>>;
}

/** One of `useFactory`, `useClass` and `useExisting`, as in Nest's own modules. */
export interface LatchkeyAsyncOptions<Tx, R = NestRequest> extends ModuleScope {
  /** Modules that export the injected providers. */
  readonly imports?: Loose[];
  /** Tokens of the arguments of `useFactory`, in order. */
  readonly inject?: Loose[];
  readonly useFactory?: (
    ...injected: Loose[]
  ) => LatchkeyModuleOptions<Tx, R> | Promise<LatchkeyModuleOptions<Tx, R>>;
  readonly useClass?: new (...injected: Loose[]) => LatchkeyOptionsFactory<Tx, R>;
  readonly useExisting?: Loose;
}

const asyncNames = {
  isGlobal: true,
  imports: true,
  inject: true,
  useFactory: true,
  useClass: true,
  useExisting: true,
} as const satisfies OptionNames<LatchkeyAsyncOptions<never>>;

/** Nest's dynamic module. */
export interface NestDynamicModule {
  module: new () => object;
  global: boolean;
  imports: Loose[];
  providers: Loose[];
  exports: Loose[];
}

/**
 * Adds a latchkey to a Nest app: the provider `LATCHKEY`, the providers that `@Idempotent` needs, a worker that starts and stops
 * with the app, and `LatchkeyHealthIndicator`. Import it once, in the root module. Call `app.enableShutdownHooks()`, so that
 * SIGTERM shuts the app down in order; close pools in `onApplicationShutdown`, which runs after Latchkey's shutdown.
 */
// biome-ignore lint/complexity/noStaticOnlyClass: Nest's modules are classes.
export class LatchkeyModule {
  /** @throws {TypeError} when an option is missing, unknown or out of range. */
  static forRoot<Tx, R = NestRequest>(
    options: LatchkeyModuleOptions<Tx, R> & ModuleScope,
  ): NestDynamicModule {
    const { isGlobal = true, ...own } = options;
    checkModuleOptions("LatchkeyModule.forRoot", own);
    return dynamicModule(isGlobal, [], [{ provide: OPTIONS, useValue: own }]);
  }

  /**
   * Like `forRoot`, for options that need providers, such as a pool.
   *
   * @throws {TypeError} for unknown options, and unless exactly one of `useFactory`, `useClass` and `useExisting` is set; the
   * app does not start if the options that it returns are out of range.
   */
  static forRootAsync<Tx, R = NestRequest>(options: LatchkeyAsyncOptions<Tx, R>): NestDynamicModule {
    checkOptions("LatchkeyModule.forRootAsync", options, asyncNames);
    const { isGlobal = true, imports = [] } = options;
    return dynamicModule(isGlobal, imports, optionProviders(options));
  }
}

function optionProviders<Tx, R>(options: LatchkeyAsyncOptions<Tx, R>): Loose[] {
  const { inject = [], useFactory, useClass, useExisting } = options;
  const ways = [useFactory, useClass, useExisting].filter((way) => way !== undefined);
  if (ways.length !== 1) {
    throw new TypeError("LatchkeyModule.forRootAsync takes one of useFactory, useClass and useExisting");
  }
  if (useFactory !== undefined) return [{ provide: OPTIONS, inject, useFactory }];
  const fromFactory = {
    provide: OPTIONS,
    inject: [useClass ?? useExisting],
    useFactory: (factory: LatchkeyOptionsFactory<Tx, R>) => factory.createLatchkeyOptions(),
  };
  return useClass === undefined ? [fromFactory] : [useClass, fromFactory];
}

function dynamicModule(global: boolean, imports: Loose[], optionsFrom: Loose[]): NestDynamicModule {
  const providers = [
    ...optionsFrom,
    {
      provide: LATCHKEY,
      inject: [OPTIONS],
      useFactory: (options: LatchkeyModuleOptions<never>) => {
        checkModuleOptions("LatchkeyModule.forRootAsync", options);
        return options.latchkey;
      },
    },
    {
      provide: LatchkeyRoutes,
      inject: [LATCHKEY, OPTIONS],
      useFactory: (latchkey: Latchkey<never>, { http }: LatchkeyModuleOptions<never, never>) =>
        new LatchkeyRoutes(latchkey, http),
    },
    {
      provide: LatchkeyService,
      inject: [LATCHKEY, OPTIONS],
      useFactory: (latchkey: Latchkey<never>, { worker = {}, shutdown = {} }: LatchkeyModuleOptions<never>) =>
        new LatchkeyService(latchkey, worker, shutdown),
    },
    {
      provide: LatchkeyHealthIndicator,
      inject: [LatchkeyService],
      useFactory: (service: LatchkeyService) => new LatchkeyHealthIndicator(service),
    },
    {
      provide: LatchkeyOpenApi,
      inject: [LatchkeyRoutes],
      useFactory: (routes: LatchkeyRoutes) => new LatchkeyOpenApi(routes),
    },
  ];
  return {
    module: LatchkeyModule,
    global,
    imports,
    providers,
    exports: [LATCHKEY, LatchkeyRoutes, LatchkeyHealthIndicator, LatchkeyOpenApi],
  };
}

/** @throws {TypeError} with a specific message, for apps in JavaScript, which have no types. */
function checkModuleOptions(what: string, options: unknown): void {
  checkOptions(what, options, optionNames);
  const { latchkey, http } = options as Partial<LatchkeyModuleOptions<never>>;
  if (typeof latchkey !== "object" || latchkey === null || typeof latchkey.operation !== "function") {
    throw new TypeError(`${what}: latchkey is missing: pass the result of createLatchkey`);
  }
  if (typeof http !== "object" || http === null) {
    throw new TypeError(`${what}: http is missing: set the tenant of requests, \`http: { tenant: … }\``);
  }
}
