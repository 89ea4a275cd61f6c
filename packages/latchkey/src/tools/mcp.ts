/** Tools of MCP servers: a call runs once for each key. */
import type { DirectExecution, Execution } from "../engine/classify.ts";
import { checkOptions, type OptionNames } from "../known-options.ts";
import type { Latchkey } from "../latchkey.ts";
import type { Operation } from "../operations/operation.ts";
import type { OwnedOperation } from "../operations/owned-operation.ts";
import {
  checkToolOperation,
  runTool,
  serveTool,
  type ToolContext,
  type ToolOutcome,
  type ToolRules,
} from "./tool-call.ts";
import { resolveIdentity, type ToolIdentity } from "./tool-identity.ts";

export type { ToolContext, ToolIdentity };

/** The part of a tool's context that Latchkey reads: of `@modelcontextprotocol/server` 2 and `@modelcontextprotocol/sdk` 1. */
export interface McpContext {
  readonly mcpReq?: { readonly _meta?: Readonly<Record<string, unknown>> | undefined } | undefined;
  readonly _meta?: Readonly<Record<string, unknown>> | undefined;
}

/** The part of a tool's result that Latchkey reads. */
export interface McpResult {
  readonly content?: unknown;
  readonly isError?: boolean | undefined;
  readonly _meta?: Readonly<Record<string, unknown>> | undefined;
}

/** The result of a call that has no other. The text is for the model, `_meta` for programs. */
export interface McpRefusal {
  [member: string]: unknown;
  isError: true;
  content: { type: "text"; text: string }[];
  _meta: Record<string, unknown>;
}

export type McpOptions<C> = ToolIdentity<C> & {
  /** The members of the request's `_meta` that may carry the key. Default `idempotency-key` and `idempotencyKey`. */
  readonly metaNames?: readonly string[];
  /** Returns the key from elsewhere, such as from an argument (ACP and UCP). Default: from `_meta`. */
  readonly key?: (args: McpArguments, context: C) => unknown;
  /** The part of the arguments that must be equal in a repeated call. Default: all of them, as JSON. */
  readonly input?: (args: McpArguments) => unknown;
  /**
   * A call without a key: `refuse` it, or `run` it without protection, every time. Default `refuse`, whatever the operation's
   * `key` option is.
   */
  readonly withoutKey?: "refuse" | "run";
  /** The member of a result's `_meta` that marks a replay with `true`. Default `idempotent-replayed`. */
  readonly replayMeta?: string;
  /** Member of a refusal's `_meta` with `code`, `retryable`, `safe_new_key`, `retry_after_ms`. Default `idempotency-problem`. */
  readonly problemMeta?: string;
};

/** A tool's arguments, as parsed by its schema. Empty for a tool without input. */
export type McpArguments = Readonly<Record<string, unknown>>;

const optionNames = {
  tenant: true,
  singleTenant: true,
  principal: true,
  metaNames: true,
  key: true,
  input: true,
  withoutKey: true,
  replayMeta: true,
  problemMeta: true,
} as const satisfies OptionNames<Record<keyof McpOptions<never> | "tenant" | "singleTenant", unknown>>;

/** For `registerTool`: a tool with input, or without. */
export interface McpTool<A, C, R> {
  (args: A, context: C): Promise<R | McpRefusal>;
  (context: C): Promise<R | McpRefusal>;
}

/** What a tool's handler gets after its arguments: `tx` and `attempt` as in every handler; `mcp` is the server's context. */
export type McpHandler<Tx, E extends DirectExecution, A, C, R> = (
  args: A,
  context: ToolContext<Tx, E> & { readonly mcp: C },
) => Promise<R>;

/**
 * Creates `protect(operation, handler)` for tools of an MCP server: a call runs once for each key of its tenant; a repeated
 * call gets the first result, marked in `_meta`. A result with `isError` is stored like any other, unless the handler calls
 * `attempt.release()`. A result that asks for input is never stored. If there is no result to return, the call is a tool error
 * whose text tells the model what to do. Use one operation per tool.
 *
 * @throws {TypeError} when an option is missing, unknown or out of range; `protect` throws it for an operation that owns its
 * work, has keys by path, or belongs to another latchkey.
 */
export function mcpProtect<Tx, C extends McpContext = McpContext>(
  latchkey: Latchkey<Tx>,
  options: McpOptions<C>,
): <E extends DirectExecution, A, R extends McpResult>(
  operation: Operation<E>,
  handler: McpHandler<Tx, E, A, C, R>,
) => McpTool<A, C, R> {
  const entry = entryOf("mcpProtect", options);
  return (operation, handler) => {
    checkToolOperation(latchkey, operation, false);
    return entry(async (call, rules, args, mcp) =>
      runTool(latchkey, operation, call, rules, async (context) => {
        const value = await handler(args, { ...context, mcp });
        return { value, isError: value.isError === true, isInterim: asksForInput(value) };
      }),
    );
  };
}

/**
 * Creates `serve(operation, toInput)` for tools whose operation owns its work: a worker can continue a call whose process
 * died. The body of `run`'s answer is the tool's result: unchanged if it has `content`, otherwise as JSON text and
 * `structuredContent`. A status from 400 on makes it a tool error.
 *
 * @throws {TypeError} as `mcpProtect`; `serve` throws it for an operation without `run`.
 */
export function mcpServe<Tx, C extends McpContext = McpContext>(
  latchkey: Latchkey<Tx>,
  options: McpOptions<C>,
): <E extends Execution, I, A = I>(
  operation: OwnedOperation<E, I>,
  toInput: (args: A, context: C) => I | Promise<I>,
) => McpTool<A, C, McpServed> {
  const entry = entryOf("mcpServe", options);
  return (operation, toInput) => {
    checkToolOperation(latchkey, operation, true);
    return entry(async (call, rules, args, mcp) => {
      const outcome = await serveTool(latchkey, operation, call, rules, await toInput(args, mcp));
      return outcome.kind === "result" ? { ...outcome, value: served(outcome) } : outcome;
    });
  };
}

/** The result of an operation that owns its work. */
export interface McpServed {
  [member: string]: unknown;
  isError?: boolean;
  _meta?: Record<string, unknown>;
  content: { type: "text"; text: string }[];
  structuredContent?: Record<string, unknown>;
}

type Run<A, C> = (
  call: Parameters<typeof runTool>[2],
  rules: ToolRules,
  args: A,
  context: C,
) => Promise<ToolOutcome>;

/** Everything around the work, with the options resolved once. */
function entryOf<C extends McpContext>(
  what: string,
  options: McpOptions<C>,
): <A, R extends McpResult>(run: Run<A, C>) => McpTool<A, C, R> {
  checkOptions(what, options, optionNames);
  const { metaNames = ["idempotency-key", "idempotencyKey"], withoutKey = "refuse" } = options;
  const { replayMeta = "idempotent-replayed", problemMeta = "idempotency-problem" } = options;
  if (metaNames.length === 0 || metaNames.some((name) => typeof name !== "string" || name === "")) {
    throw new TypeError(`${what}: metaNames must name at least one member of _meta`);
  }
  if (withoutKey !== "refuse" && withoutKey !== "run") {
    throw new TypeError(`${what}: withoutKey must be refuse or run (got ${String(withoutKey)})`);
  }
  const identity = resolveIdentity(what, options);
  const keyOf = options.key ?? ((_: McpArguments, context: C) => keyInMeta(metaNames, context));
  const input = options.input ?? ((args: McpArguments) => args);
  const wanted = `Send it in _meta as ${JSON.stringify(metaNames[0])}.`;
  const rules: ToolRules = { choice: "caller", withoutKey, ...(options.key === undefined ? { wanted } : {}) };
  return <A, R extends McpResult>(run: Run<A, C>): McpTool<A, C, R> =>
    async (...given: readonly unknown[]) => {
      // The SDK calls a tool without input with its context only.
      const [args, context] = (given.length < 2 ? [undefined, given[0]] : given) as [A, C];
      const named = (args ?? {}) as McpArguments;
      const who = await identity(context);
      const call = { ...who, key: await keyOf(named, context), input: input(named) };
      const outcome = await run(call, rules, args, context);
      if (outcome.kind === "refused") return refusal(outcome.refusal, problemMeta);
      const result = outcome.value as R;
      return outcome.replayed ? { ...result, _meta: { ...result._meta, [replayMeta]: true } } : result;
    };
}

/** Different keys under several names count as no valid key. */
function keyInMeta(names: readonly string[], { mcpReq, _meta }: McpContext): unknown {
  const meta = mcpReq?._meta ?? _meta ?? {};
  const keys = new Set(
    names.map((name) => meta[name]).filter((value) => value !== undefined && value !== null),
  );
  if (keys.size > 1) return [...keys];
  const [only] = keys;
  return only;
}

/** An interim result (MCP 2026-07-28): the client repeats the call with the input that the server asked for. */
function asksForInput(value: object): boolean {
  return "resultType" in value && value.resultType === "input_required";
}

function refusal(
  {
    message,
    reason,
    retryable,
    safeNewKey,
    retryAfterMs,
  }: Extract<ToolOutcome, { kind: "refused" }>["refusal"],
  problemMeta: string,
): McpRefusal {
  const problem = { code: reason, retryable, safe_new_key: safeNewKey };
  const wait = retryAfterMs === null ? {} : { retry_after_ms: retryAfterMs };
  return {
    isError: true,
    content: [{ type: "text", text: message }],
    _meta: { [problemMeta]: { ...problem, ...wait } },
  };
}

function served({ value, status }: Extract<ToolOutcome, { kind: "result" }>): object {
  const failed = status >= 400 ? { isError: true } : {};
  if (isObject(value) && Array.isArray(value.content)) return { ...value, ...failed };
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  const structured = isObject(value) && status < 400 ? { structuredContent: value } : {};
  return { content: [{ type: "text", text }], ...structured, ...failed };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
