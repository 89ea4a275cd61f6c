/** What a case of the HTTP suite is, and the context it runs in. */
import assert from "node:assert/strict";
import type {
  Attempt,
  Execution,
  HttpSettings,
  Latchkey,
  LatchkeyEvent,
  Limits,
  Operation,
  OperationOptions,
  OwnedOperation,
  OwnedOperationOptions,
  Policy,
  ProblemCode,
  RunAnswer,
} from "latchkey";
import type { HttpAnswer, HttpCall } from "./client.ts";

/** What a handler of the suite answers. The app under test writes it to its framework's response. */
export interface HandlerAnswer {
  readonly status: number;
  /** One entry per field line. */
  readonly headers?: readonly (readonly [name: string, value: string])[];
  /** Default: none. An iterable is streamed. */
  readonly body?: string | Uint8Array | AsyncIterable<Uint8Array>;
  /** The app's handler throws this after it has set status and headers, instead of sending a body. */
  readonly error?: Error;
}

interface RouteBase {
  /** A route for GET also answers HEAD. */
  readonly method: "POST" | "GET";
  readonly path: string;
}

/** A route that the app under test protects. `readBody` returns what the framework gives to the handler. */
export type ProtectedRoute<Tx> =
  | (RouteBase & {
      readonly execution: "transaction";
      readonly operation: Operation<"transaction">;
      handle(
        readBody: () => Promise<Uint8Array>,
        context: { tx: Tx; attempt: Attempt },
      ): Promise<HandlerAnswer>;
    })
  | (RouteBase & {
      readonly execution: "lease";
      readonly operation: Operation<"lease">;
      handle(readBody: () => Promise<Uint8Array>, context: { attempt: Attempt }): Promise<HandlerAnswer>;
    });

/** The input of a served operation of the suite. */
export interface ServedInput {
  /** The request's body. */
  readonly sent: string;
}

/** A route whose operation owns its work, which the app under test serves. */
export interface ServedRoute extends RouteBase {
  /** At run time its execution may be the other kind, which makes no difference to an adapter. */
  readonly operation: OwnedOperation<"lease", ServedInput>;
  /** `readBody` returns what the framework gives to its own handlers. */
  toInput(readBody: () => Promise<Uint8Array>): Promise<ServedInput>;
}

/**
 * A complete app. Its framework answers errors that the handlers do not catch: with their `status` (or `statusCode`) if they
 * have one, otherwise with 500.
 */
export interface AppUnderTest<Tx> {
  readonly latchkey: Latchkey<Tx>;
  readonly route: ProtectedRoute<Tx>;
  /** Absent in cases about the protected route. */
  readonly served?: ServedRoute;
  /** If they have a `statusPath`, the app serves the status resource below it: GET and HEAD of `<statusPath>/<id>`. */
  readonly settings: Omit<HttpSettings<never>, "principal">;
  /** For the adapter's options; receives the request's headers. `tenant` throws if the request asks for it. */
  tenant(header: HeaderLookup): string | null;
  principal(header: HeaderLookup): string | null;
}

export type HeaderLookup = (name: string) => string | null | undefined;

export interface HandlerContextUnderTest {
  readonly attempt: Attempt;
  /** Writes a business row through `tx`; writes nothing under a lease. */
  write(row: string): Promise<void>;
  readBody(): Promise<Uint8Array>;
}

export interface Setup {
  readonly execution: Execution;
  /** Default POST. */
  readonly method?: "GET";
  /** Default: answers 201 with the request's body. */
  readonly handle?: (context: HandlerContextUnderTest) => Promise<HandlerAnswer>;
  readonly options?: Omit<OperationOptions, "execution">;
  readonly policy?: Policy;
  readonly settings?: AppUnderTest<never>["settings"];
  readonly limits?: Limits;
}

export interface ServedSetup extends Pick<Setup, "execution" | "method" | "policy" | "settings" | "limits"> {
  /** Default: answers 201 with its input. */
  readonly run?: (
    input: ServedInput,
    context: Omit<HandlerContextUnderTest, "readBody">,
  ) => Promise<RunAnswer>;
  /** Default: the request's body, as text. */
  readonly toInput?: (sent: string) => unknown;
  readonly options?: Omit<OwnedOperationOptions<ServedInput, never>, "execution" | "version" | "run">;
}

/** A running app. */
export interface Subject {
  readonly url: string;
  send(call: HttpCall, signal?: AbortSignal): Promise<HttpAnswer>;
  /** Requests the status resource of an app whose settings have a `statusPath`. */
  look(id: string, call?: HttpCall): Promise<HttpAnswer>;
  /** Acts as a worker: runs accepted and resumable operations until all of them have ended. */
  work(): Promise<void>;
  /** Acts as the record-cleaner, once. */
  clean(): Promise<void>;
  /** How often the handler has started. */
  starts(): number;
  readonly events: readonly LatchkeyEvent[];
  /** Makes the store fail every call from now on, or work again. */
  setStoreDown(down: boolean): void;
  /** Delays the store's confirmation that an attempt has ended, starting with the next attempt. */
  parkCompletion(): { readonly reached: Promise<void>; confirm(): void };
}

export interface HttpCaseContext {
  start(setup: Setup): Promise<Subject>;
  /** The same for an operation that owns its work; requests go to the served route. */
  serve(setup: ServedSetup): Promise<Subject>;
  /** An app whose operation is of the other kind than its route. */
  startWrong(route: "protected" | "served", execution: Execution): Promise<Subject>;
  advance(milliseconds: number): Promise<void>;
  /** Null if the store has no transactions. */
  readonly committedRows: (() => Promise<readonly string[]>) | null;
  /** Whether the adapter sees repeated field lines separately, or joined. */
  readonly seesFieldLines: boolean;
  /** Whether the adapter is in front of the whole app instead of protecting the route by name. */
  readonly mounts: boolean;
}

export interface HttpCase {
  readonly name: string;
  /** Default: the case applies to both. */
  readonly execution?: Execution;
  /** Only for adapters that serve operations that own their work. */
  readonly served?: true;
  /** Only for apps that serve the status resource. */
  readonly status?: true;
  run(context: HttpCaseContext, execution: Execution): Promise<void>;
}

/** Asserts that an answer is the problem `code`, with everything a problem must have. */
export function assertProblem(
  answer: HttpAnswer,
  code: ProblemCode,
  expected: { readonly status: number; readonly retryable: boolean; readonly safeNewKey: boolean },
): void {
  assert.equal(answer.status, expected.status, `${code}: status`);
  assert.equal(answer.header("content-type"), "application/problem+json");
  assert.equal(answer.header("cache-control"), "no-store");
  assert.match(answer.header("link") ?? "", /^<[^>]+>; rel="describedby"$/u);
  const problem = answer.json();
  assert.equal(problem.code, code);
  assert.equal(problem.status, expected.status, "the status in the body must be the real one");
  assert.equal(problem.retryable, expected.retryable, `${code}: retryable`);
  assert.equal(problem.safe_new_key, expected.safeNewKey, `${code}: safe_new_key`);
  for (const member of ["type", "title", "detail"]) {
    assert.ok(typeof problem[member] === "string" && problem[member] !== "", `${code}: ${member}`);
  }
  assert.equal(answer.header("idempotent-replayed"), null, "a problem is not a replay");
}

/** Asserts `Retry-After`: whole seconds, at least one. */
export function assertRetryAfter(answer: HttpAnswer): void {
  const value = answer.header("retry-after") ?? "";
  assert.match(value, /^[1-9][0-9]*$/u, "Retry-After must be a whole number of seconds, at least 1");
}

/** Asserts that `replay` repeats `first`: status, body, these headers line by line, and the marker on the replay only. */
export function assertReplay(first: HttpAnswer, replay: HttpAnswer, names: readonly string[] = []): void {
  assert.equal(first.header("idempotent-replayed"), null, "a first execution must not be marked");
  assert.equal(replay.header("idempotent-replayed"), "true", "a replay must be marked");
  assert.equal(replay.status, first.status);
  assert.deepEqual(replay.body, first.body);
  const stored = new Set(["content-type", ...names]);
  const linesOf = (answer: HttpAnswer) => answer.lines.filter(([name]) => stored.has(name));
  assert.deepEqual(linesOf(replay), linesOf(first));
}

/** A gate at which a handler waits, and a promise that resolves when the handler arrives. */
export function createGate(): { arrived: Promise<void>; pass(): Promise<void>; open(): void } {
  const arrival = Promise.withResolvers<void>();
  const opening = Promise.withResolvers<void>();
  return {
    arrived: arrival.promise,
    pass() {
      arrival.resolve();
      return opening.promise;
    },
    open: () => opening.resolve(),
  };
}
