import "reflect-metadata";
import { AsyncLocalStorage } from "node:async_hooks";
import type { ServerResponse } from "node:http";
import { PassThrough, Readable } from "node:stream";
import {
  type ArgumentsHost,
  BadRequestException,
  type CallHandler,
  type CanActivate,
  Catch,
  ConflictException,
  Controller,
  createParamDecorator,
  type ExecutionContext,
  Header,
  HttpCode,
  type INestApplication,
  Module,
  type NestInterceptor,
  ParseIntPipe,
  Post,
  Query,
  Redirect,
  Req,
  RequestTimeoutException,
  Res,
  StreamableFile,
  UseGuards,
  UseInterceptors,
} from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { ExpressAdapter } from "@nestjs/platform-express";
import { FastifyAdapter, type NestFastifyApplication } from "@nestjs/platform-fastify";
import { catchError, delay, from, map, type Observable, of, tap, throwError, timeout } from "rxjs";
import { afterEach, describe, expect, test } from "vitest";
import {
  expectSameAnswer,
  httpService,
  retryAfterHangUp,
  serializationFailure,
} from "../../../../../test/support/http-service.ts";
import { listen } from "../../../../../test/support/listen.ts";
import { deferred, until } from "../../../../../test/support/until.ts";
import { type HttpCall, newKey, send } from "../../../../latchkey-conformance/src/http-conformance/client.ts";
import type { HandlerContext } from "../../operations/attempt.ts";
import type { OperationOptions } from "../../operations/operation.ts";
import type { MemoryTransaction } from "../../stores/memory.ts";
import { nestContext, nestProtect } from "./nest.ts";

type Context = HandlerContext<MemoryTransaction, "transaction">;
/** The part of both platforms' responses that these handlers use. */
interface AnyResponse {
  status(code: number): this;
  header(name: string, value: string): this;
  send(body?: unknown): unknown;
}
interface Parameters {
  readonly req: {
    readonly body: unknown;
    readonly raw?: { socket: NodeJS.EventEmitter };
    socket: NodeJS.EventEmitter;
  };
  readonly res: AnyResponse;
  readonly context: Context;
  readonly count: number;
}
type Handler = (parameters: Parameters) => unknown;
type MethodDecorate = (prototype: object, name: string, method: PropertyDescriptor) => unknown;

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

interface Surroundings {
  /** Further decorators of the method. */
  readonly decorate?: readonly MethodDecorate[];
  /** Interceptors named after the protecting one. */
  readonly inner?: readonly NestInterceptor[];
  /** Whether Nest answers with what the handler returns. Default true. */
  readonly passthrough?: boolean;
  /** Parses `?count=` with Nest's own pipe. */
  readonly count?: boolean;
  readonly globals?: (app: INestApplication) => void;
  readonly options?: OperationOptions;
  readonly lease?: boolean;
  readonly rawBody?: boolean;
  readonly refusedCommits?: number;
  readonly distant?: boolean;
}

/** Abandons the handler after a moment. */
const impatient = (answer: () => Observable<unknown>) =>
  intercepting((stream) => stream.pipe(timeout(50), catchError(answer)));

const platforms = ["Express", "Fastify"] as const;
type Platform = (typeof platforms)[number];

/** `/run` is protected, `/plain` is not. */
async function serve(platform: Platform, handler: Handler, around: Surroundings = {}) {
  const { refusedCommits = 0, distant = false, rawBody = true, globals } = around;
  const service = httpService({ refusedCommits, distant });
  const protect = nestProtect(service.latchkey, {
    tenant: ({ headers }) => headers["x-tenant"] as string,
  });
  const operation = around.lease ? service.lease(around.options) : service.operation(around.options);
  const adapter = platform === "Express" ? new ExpressAdapter() : new FastifyAdapter();
  const Root = moduleOf(handler, protect<"transaction" | "lease">(operation), around);
  const app = await NestFactory.create(Root, adapter, { rawBody, logger: false, abortOnError: false });
  globals?.(app);
  await app.init();
  const instance = app.getHttpAdapter().getInstance();
  if (platform === "Fastify") await (app as NestFastifyApplication).getHttpAdapter().getInstance().ready();
  const { url, close } = await listen(platform === "Express" ? instance : instance.routing);
  closing.push(async () => {
    await close();
    await app.close();
  });
  return { ...service, url, call: (call: HttpCall = {}) => send(url, call) };
}

function moduleOf(handler: Handler, interceptor: NestInterceptor, around: Surroundings) {
  const { decorate = [], inner = [], passthrough = true, count = false } = around;
  class Routes {
    run(req: Parameters["req"], res: AnyResponse, context: Context, given: number): unknown {
      return handler({ req, res, context, count: given });
    }
    plain(req: Parameters["req"], res: AnyResponse): unknown {
      return handler({ req, res, context: {} as Context, count: 0 });
    }
  }
  const { prototype } = Routes;
  for (const name of ["run", "plain"]) {
    const method = Object.getOwnPropertyDescriptor(prototype, name) ?? {};
    Req()(prototype, name, 0);
    Res({ passthrough })(prototype, name, 1);
    if (name === "run") {
      createParamDecorator(nestContext)()(prototype, name, 2);
      if (count) Query("count", ParseIntPipe)(prototype, name, 3);
      UseInterceptors(interceptor)(prototype, name, method);
    }
    UseInterceptors(...inner)(prototype, name, method);
    for (const each of decorate) each(prototype, name, method);
    Post(name)(prototype, name, method);
  }
  Controller()(Routes);
  class Root {}
  Module({ controllers: [Routes] })(Root);
  return Root;
}

function intercepting(intercept: (stream: Observable<unknown>) => Observable<unknown>): NestInterceptor {
  return { intercept: (_context: ExecutionContext, next: CallHandler) => intercept(next.handle()) };
}

const text = (...texts: string[]) =>
  new StreamableFile(Readable.from(texts.map((each) => Buffer.from(each))));

describe.each(platforms)("Nest on %s", (platform) => {
  describe("a first answer is the same as Nest's alone", () => {
    const answers: Record<string, [Handler, Surroundings?]> = {
      "an object, as a promise": [async () => ({ a: [1, null] })],
      "a text": [() => "grüß"],
      "a number": [() => 7],
      nothing: [() => undefined],
      "an Observable's last value": [() => of({ first: true }, { last: true })],
      "a file": [() => text("one ", "two")],
      "a Response": [() => new Response("made", { status: 202, headers: { "X-A": "1" } })],
      "what an async generator yields": [
        async function* () {
          yield { row: 1 };
          yield { row: 2 };
        },
      ],
      "a status and headers by decorators": [
        () => ({}),
        { decorate: [HttpCode(202), Header("X-A", "1"), Header("Cache-Control", "private")] },
      ],
      "a redirect by decorator": [() => undefined, { decorate: [Redirect("/elsewhere", 303)] }],
      "a status and headers by the response": [
        ({ res }) => {
          res.status(299).header("X-A", "1").header("Set-Cookie", "a=1");
          return { passed: true };
        },
      ],
      "what the handler sends itself": [
        ({ res }) => {
          res.status(299).header("Content-Type", "text/own").send("itself");
        },
        { passthrough: false },
      ],
      "what the handler sends itself, later": [
        async ({ res }) => {
          await new Promise((resolve) => setImmediate(resolve));
          res.status(201).send("later");
        },
        { passthrough: false },
      ],
      "an interceptor's envelope, inside": [
        () => ({ a: 1 }),
        { inner: [intercepting((stream) => stream.pipe(map((data) => ({ data }))))] },
      ],
      "a global interceptor's envelope, outside": [
        () => ({ a: 1 }),
        {
          globals: (app) =>
            void app.useGlobalInterceptors(
              intercepting((stream) => stream.pipe(map((data) => ({ data, at: "outside" })))),
            ),
        },
      ],
      "what an interceptor makes of an error, inside": [
        () => {
          throw new Error("caught");
        },
        { inner: [intercepting((stream) => stream.pipe(catchError(() => of({ rescued: true }))))] },
      ],
    };
    test.each(Object.entries(answers))("%s", async (_name, [handler, around]) => {
      const { call } = await serve(platform, handler, around);
      const key = newKey();
      const first = await call({ key });
      expectSameAnswer(first, await call({ target: "/plain" }));
      const replay = await call({ key });
      expect(replay.header("idempotent-replayed")).toBe("true");
      expect([replay.status, replay.body]).toEqual([first.status, first.body]);
      for (const name of ["content-type", "location", "cache-control"]) {
        expect(replay.header(name)).toBe(first.header(name));
      }
    });
  });

  describe("what throws", () => {
    test("is rolled back, and answered by the exception filters; the key runs again", async () => {
      let failures = 1;
      const { call, memory } = await serve(platform, async ({ context, res }) => {
        await context.tx.insert("orders", { id: failures });
        res.header("X-Handler", "1");
        if (failures-- > 0) throw new ConflictException("sold out");
        return { done: true };
      });
      const key = newKey();
      const failed = await call({ key });
      expect([failed.status, failed.json().message]).toEqual([409, "sold out"]);
      expect(failed.header("x-handler")).toBeNull();
      expect(memory.rows("orders")).toEqual([]);
      expect((await call({ key })).json()).toEqual({ done: true });
      expect((await call({ key })).header("idempotent-replayed")).toBe("true");
      expect(memory.rows("orders")).toEqual([{ id: 0 }]);
    });

    test("reaches filters and interceptors of the app's own", async () => {
      const seen: unknown[] = [];
      class Filter {
        catch(error: Error, host: ArgumentsHost): void {
          const res = host.switchToHttp().getResponse<AnyResponse>();
          res.status(418).send({ filtered: error.message });
        }
      }
      Catch()(Filter);
      const { call } = await serve(platform, () => throwError(() => new Error("failed on purpose")), {
        globals: (app) => {
          app.useGlobalFilters(new Filter());
          app.useGlobalInterceptors(
            intercepting((stream) => stream.pipe(tap({ error: ({ message }) => seen.push(message) }))),
          );
        },
      });
      const answer = await call();
      expect([answer.status, answer.json()]).toEqual([418, { filtered: "failed on purpose" }]);
      expect(seen).toEqual(["failed on purpose"]);
    });

    test("pipes, is not an execution: the key stays free, also under a lease", async () => {
      let starts = 0;
      const { call } = await serve(platform, ({ count }) => ({ starts: ++starts, count }), {
        count: true,
        lease: true,
      });
      const key = newKey();
      for (let round = 0; round < 2; round++) {
        const refused = await call({ key, target: "/run?count=many" });
        expect([refused.status, starts]).toEqual([400, 0]);
        expect(refused.json().message).toContain("numeric string");
      }
      expect((await call({ key, target: "/run?count=2" })).json()).toEqual({ starts: 1, count: 2 });
    });

    test("a serialization failure, runs again: pipes, inner interceptors and the handler", async () => {
      let runs = 0;
      let inner = 0;
      let guarded = 0;
      const guard: CanActivate = { canActivate: () => ++guarded > 0 };
      const { call, memory } = await serve(
        platform,
        async ({ context, res }) => {
          runs += 1;
          await context.tx.insert("orders", { runs });
          res.header("X-Run", String(runs));
          if (runs === 1) throw serializationFailure();
          return { runs };
        },
        {
          decorate: [UseGuards(guard)],
          inner: [intercepting((stream) => stream.pipe(tap({ subscribe: () => void inner++ })))],
        },
      );
      const answer = await call();
      expect([answer.json(), answer.header("x-run")]).toEqual([{ runs: 2 }, "2"]);
      expect([runs, inner, guarded]).toEqual([2, 2, 1]);
      expect(memory.rows("orders")).toEqual([{ runs: 2 }]);
    });

    test("a serialization failure at COMMIT, comes after Nest's answer: the client gets 503, to retry", async () => {
      let runs = 0;
      const { call, memory } = await serve(
        platform,
        async ({ context }) => {
          await context.tx.insert("orders", { run: ++runs });
          return { runs };
        },
        { refusedCommits: 1 },
      );
      const key = newKey();
      const refused = await call({ key });
      expect([refused.status, refused.json().code]).toEqual([503, "store-unavailable"]);
      expect(refused.header("retry-after")).toBe("1");
      expect(memory.rows("orders")).toEqual([]);
      expect((await call({ key })).json()).toEqual({ runs: 2 });
    });

    test.each([false, true])("the response, which is full: from a distant store %s", async (distant) => {
      const { call } = await serve(platform, () => "x".repeat(1001), {
        distant,
        options: { answerHoldBytes: 1000, answerLimitBytes: 1000 },
      });
      const answer = await call();
      expect([answer.status, answer.json()]).toEqual([
        500,
        { statusCode: 500, message: "Internal server error" },
      ]);
    });

    test("Latchkey itself after Nest has answered, is answered by the filters", async () => {
      const { call } = await serve(platform, () => ({ wrote: false }), { options: { writes: "required" } });
      const answer = await call();
      expect([answer.status, answer.json()]).toEqual([
        500,
        { statusCode: 500, message: "Internal server error" },
      ]);
    });
  });

  describe("what comes before the attempt", () => {
    test("guards decide about replays too", async () => {
      let allowed = true;
      const guard: CanActivate = { canActivate: () => allowed };
      const { call, events } = await serve(platform, () => ({ secret: 1 }), { decorate: [UseGuards(guard)] });
      const key = newKey();
      expect((await call({ key })).status).toBe(201);
      allowed = false;
      const before = events.length;
      const refused = await call({ key });
      expect([refused.status, refused.header("idempotent-replayed")]).toEqual([403, null]);
      expect(events.length).toBe(before);
    });

    test("what they set on the response is on every answer", async () => {
      let requests = 0;
      const guard: CanActivate = {
        canActivate(host) {
          host.switchToHttp().getResponse<AnyResponse>().header("X-Guard", String(++requests));
          return true;
        },
      };
      const { call } = await serve(platform, () => ({}), {
        decorate: [UseGuards(guard)],
        globals: (app) => app.enableCors({ origin: "https://shop.example" }),
      });
      const key = newKey();
      const answers = [await call({ key }), await call({ key }), await call({ key, body: '{"amount":2}' })];
      expect(answers.map(({ status }) => status)).toEqual([201, 201, 422]);
      expect(answers.map((answer) => answer.header("x-guard"))).toEqual(["1", "2", "3"]);
      for (const answer of answers) {
        expect(answer.header("access-control-allow-origin")).toBe("https://shop.example");
      }
    });

    test("global interceptors see replays and problems complete like answers", async () => {
      const seen: unknown[] = [];
      const { call } = await serve(platform, () => ({ a: 1 }), {
        globals: (app) =>
          void app.useGlobalInterceptors(
            intercepting((stream) =>
              stream.pipe(
                tap({ next: (value) => seen.push(value), complete: () => seen.push("complete") }),
                delay(1),
                map((data) => ({ data })),
              ),
            ),
          ),
      });
      const key = newKey();
      const first = await call({ key });
      expect(first.json()).toEqual({ data: { a: 1 } });
      expect((await call({ key })).body).toEqual(first.body);
      expect((await call({ key, body: '{"amount":2}' })).json().code).toBe("key-misuse");
      expect(seen).toEqual([
        { a: 1 },
        "complete",
        { data: { a: 1 } },
        "complete",
        expect.objectContaining({ code: "key-misuse" }),
        "complete",
      ]);
    });

    test("an interceptor with a time-out answers for the handler, which is rolled back", async () => {
      const late = deferred<void>();
      let runs = 0;
      const { call, memory } = await serve(
        platform,
        async ({ context }) => {
          await context.tx.insert("orders", { run: ++runs });
          if (runs === 1) await late.promise;
          return { runs };
        },
        {
          globals: (app) =>
            void app.useGlobalInterceptors(
              intercepting((stream) =>
                stream.pipe(
                  timeout(100),
                  catchError(() => {
                    setImmediate(() => late.resolve());
                    return throwError(() => new RequestTimeoutException("too slow"));
                  }),
                ),
              ),
            ),
        },
      );
      const key = newKey();
      const answer = await call({ key });
      expect([answer.status, answer.json().message]).toEqual([408, "too slow"]);
      expect(memory.rows("orders")).toEqual([]);
      expect((await call({ key })).json()).toEqual({ runs: 2 });
    });

    test("an interceptor with a time-out may answer itself; a later error of the handler is reported", async () => {
      const late = deferred<void>();
      const { call, reported } = await serve(
        platform,
        async () => {
          await late.promise;
          throw new ConflictException("sold out");
        },
        { globals: (app) => void app.useGlobalInterceptors(impatient(() => of("given up"))) },
      );
      const answer = await call();
      expect([answer.status, answer.body.toString()]).toEqual([201, "given up"]);
      late.resolve();
      await until(() => reported().length > 0, { what: "the handler's error is reported" });
      expect(reported()).toMatchObject([{ message: "sold out" }]);
    });

    const tooLate = () => throwError(() => new RequestTimeoutException("too slow"));

    test("a lease continues when Nest has answered; a retry learns that it has ended", async () => {
      const late = deferred<void>();
      let runs = 0;
      const { call, reported } = await serve(
        platform,
        async ({ res }) => {
          runs += 1;
          res.header("X-Before", "handler");
          await late.promise;
          return { runs };
        },
        { lease: true, globals: (app) => void app.useGlobalInterceptors(impatient(tooLate)) },
      );
      const key = newKey();
      const answer = await call({ key });
      expect([answer.status, answer.json().message, answer.header("x-before")]).toEqual([
        408,
        "too slow",
        null,
      ]);
      late.resolve();
      await until(async () => (await call({ key })).status === 201, { what: "the lease has ended" });
      const retry = await call({ key });
      expect([retry.header("idempotency-status"), retry.body.toString()]).toEqual(["answer-not-stored", ""]);
      expect([runs, reported()]).toEqual([1, []]);
    });

    test("middleware with a time-out answers the client; the handler's value is stored completely", async () => {
      const late = deferred<void>();
      const { call, reported } = await serve(
        platform,
        async () => {
          await late.promise;
          return { done: true };
        },
        {
          lease: true,
          globals: (app) => {
            app.use((_req: unknown, res: ServerResponse, next: () => void) => {
              setTimeout(() => res.headersSent || res.writeHead(503, { "X-From": "time-out" }).end(), 30);
              next();
            });
            app.useGlobalInterceptors(intercepting((stream) => stream.pipe(map((data) => ({ data })))));
          },
        },
      );
      const key = newKey();
      const answer = await call({ key });
      expect([answer.status, answer.header("x-from")]).toEqual([503, "time-out"]);
      late.resolve();
      await until(async () => (await call({ key })).status === 201, { what: "the lease has ended" });
      const retry = await call({ key });
      expect([retry.json(), retry.header("idempotent-replayed")]).toEqual([{ data: { done: true } }, "true"]);
      expect([retry.header("x-from"), reported()]).toEqual([null, []]);
    });

    test("a handler that answers through @Res() ends its lease when Nest has answered", async () => {
      const late = deferred<void>();
      const { call, reported } = await serve(
        platform,
        async ({ res }) => {
          await late.promise;
          res.status(202).header("Location", "/1").send({ done: true });
        },
        {
          lease: true,
          passthrough: false,
          globals: (app) => void app.useGlobalInterceptors(impatient(tooLate)),
        },
      );
      const key = newKey();
      const answer = await call({ key });
      expect([answer.status, answer.json().message]).toEqual([408, "too slow"]);
      late.resolve();
      await until(async () => (await call({ key })).status === 202, { what: "the lease has ended" });
      const { header, body } = await call({ key });
      // On Fastify the reply has another answer's headers by then.
      const isWhole = platform === "Express";
      expect([header("location"), body.toString()]).toEqual(isWhole ? ["/1", '{"done":true}'] : [null, ""]);
      expect(reported()).toEqual([]);
    });
  });

  describe("a client that hangs up", () => {
    test("does not end the handler, nor the file it returns", async () => {
      const source = new PassThrough();
      const started = deferred<void>();
      const gone = deferred<void>();
      const { url } = await serve(platform, async ({ req }) => {
        (req.raw ?? req).socket.once("close", () => gone.resolve());
        started.resolve();
        await gone.promise;
        setImmediate(() => source.end("all of it"));
        return new StreamableFile(source);
      });
      const retry = await retryAfterHangUp(url, started.promise, () => {});
      expect([retry.header("idempotent-replayed"), retry.body.toString()]).toEqual(["true", "all of it"]);
    });

    test("gets no answer if the handler returns an Observable: rolled back, and the key runs again", async () => {
      let runs = 0;
      const started = deferred<void>();
      const gone = deferred<void>();
      const { url, memory } = await serve(platform, async ({ req, context }) => {
        runs += 1;
        await context.tx.insert("orders", { runs });
        if (runs > 1) return of({ runs });
        (req.raw ?? req).socket.once("close", () => setImmediate(() => gone.resolve()));
        started.resolve();
        return from(gone.promise.then(() => ({ runs })));
      });
      const retry = await retryAfterHangUp(url, started.promise, () => {});
      expect([retry.json(), retry.header("idempotent-replayed")]).toEqual([{ runs: 2 }, null]);
      expect(memory.rows("orders")).toEqual([{ runs: 2 }]);
    });
  });

  test("async context of middleware reaches pipes, interceptors and the handler", async () => {
    const storage = new AsyncLocalStorage<string>();
    const { call } = await serve(platform, async () => ({ handler: storage.getStore() }), {
      inner: [intercepting((stream) => stream.pipe(map((value) => [value, storage.getStore()])))],
      globals: (app) =>
        void app.use((_req: unknown, _res: unknown, next: () => void) => storage.run("kept", next)),
    });
    expect((await call()).json()).toEqual([{ handler: "kept" }, "kept"]);
  });

  describe("bodies", () => {
    test("the bytes count if the app keeps them; without them it is an error that names the fix", async () => {
      const echo: Handler = ({ req }) => ({ received: req.body });
      const { call } = await serve(platform, echo);
      const key = newKey();
      expect((await call({ key, body: '{"a":1,"b":2}' })).json()).toEqual({ received: { a: 1, b: 2 } });
      expect((await call({ key, body: '{"b":2,"a":1}' })).header("idempotent-replayed")).toBe("true");
      expect((await call({ key, body: '{"b":2,"a":3}' })).status).toBe(422);
      const seen: Error[] = [];
      const without = await serve(platform, echo, {
        rawBody: false,
        globals: (app) =>
          void app.useGlobalInterceptors(
            intercepting((stream) => stream.pipe(tap({ error: (error) => seen.push(error) }))),
          ),
      });
      expect((await without.call()).status).toBe(500);
      expect(seen).toMatchObject([
        { code: "body-consumed", message: expect.stringContaining("rawBody: true") },
      ]);
    });
  });

  test("without a key, if none is required, Nest answers as usual", async () => {
    const { call } = await serve(
      platform,
      ({ context, res }) => {
        res.header("X-Attempt", context.attempt.id);
        return { ran: true };
      },
      { lease: true, options: { key: "optional" } },
    );
    const answer = await call({ key: null });
    expect([answer.status, answer.json()]).toEqual([201, { ran: true }]);
    expect(answer.header("x-attempt")).not.toBeNull();
    const failing = await serve(
      platform,
      () => {
        throw new BadRequestException("no");
      },
      { lease: true, options: { key: "optional" } },
    );
    expect((await failing.call({ key: null })).status).toBe(400);
  });

  test("reading a context outside a protected handler throws", async () => {
    class Routes {
      run(_context: unknown): string {
        return "never";
      }
    }
    const method = Object.getOwnPropertyDescriptor(Routes.prototype, "run") ?? {};
    createParamDecorator(nestContext)()(Routes.prototype, "run", 0);
    Post("run")(Routes.prototype, "run", method);
    Controller()(Routes);
    class Root {}
    Module({ controllers: [Routes] })(Root);
    const adapter = platform === "Express" ? new ExpressAdapter() : new FastifyAdapter();
    const app = await NestFactory.create(Root, adapter, { logger: false });
    await app.listen(0, "127.0.0.1");
    closing.push(() => app.close());
    expect((await send(await app.getUrl(), {})).status).toBe(500);
  });
});
