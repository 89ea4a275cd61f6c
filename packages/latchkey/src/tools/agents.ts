/** Tools of agents: plain functions that an SDK calls with an id for each of the model's calls. */
import type { DirectExecution } from "../engine/classify.ts";
import { ToolCallRefused } from "../errors.ts";
import { checkOptions, type OptionNames } from "../known-options.ts";
import type { Latchkey } from "../latchkey.ts";
import type { Operation } from "../operations/operation.ts";
import { checkToolOperation, runTool, type ToolContext, type ToolOutcome } from "./tool-call.ts";
import { resolveIdentity, type ToolIdentity } from "./tool-identity.ts";

export type { ToolContext, ToolIdentity };

/** The part of the AI SDK's second argument that Latchkey reads. */
export interface AiSdkCall {
  readonly toolCallId: string;
}

/** The part of the third argument of OpenAI's Agents SDK that Latchkey reads. */
export interface AgentsCall {
  readonly toolCall?: { readonly callId: string } | undefined;
}

/** `RunContext` of OpenAI's Agents SDK, whose `context` belongs to the program. */
export interface AgentsContext {
  readonly context: unknown;
}

export type AgentToolOptions<C> = ToolIdentity<C> & {
  /**
   * The key of a call. Default: the SDK's id of the call. If a model's ids are not unique within the tenant (some count from
   * zero in each conversation), prefix them with the conversation's id.
   */
  readonly key?: (callId: string, context: C) => string;
};

const optionNames = {
  tenant: true,
  singleTenant: true,
  principal: true,
  key: true,
} as const satisfies OptionNames<Record<keyof AgentToolOptions<never> | "tenant" | "singleTenant", unknown>>;

/** What a tool's handler gets after its input: `tx` and `attempt` as in every handler, and the SDK's context of the call. */
export type AgentToolHandler<Tx, E extends DirectExecution, I, C, R> = (
  input: I,
  context: ToolContext<Tx, E> & { readonly call: C },
) => Promise<R>;

/**
 * Creates `protect(operation, handler)` for the `execute` of the AI SDK's tools: each call of the model runs once, even if the
 * run of the agent is repeated. A repeated call gets the first result, which must be JSON. Use one operation per tool.
 *
 * The protected function throws {ToolCallRefused} if there is no result to return; its message tells the model what to do.
 *
 * @throws {TypeError} when an option is missing or unknown; `protect` as `mcpProtect`'s does.
 */
export function aiSdkProtect<Tx, C extends AiSdkCall = AiSdkCall>(
  latchkey: Latchkey<Tx>,
  options: AgentToolOptions<C>,
): <E extends DirectExecution, I, R>(
  operation: Operation<E>,
  handler: AgentToolHandler<Tx, E, I, C, R>,
) => (input: I, call: C) => Promise<R> {
  const protect = protectCalls("aiSdkProtect", latchkey, options);
  return (operation, handler) => {
    const execute = protect(operation, handler);
    return async (input, call) => {
      const outcome = await execute(input, call, call.toolCallId);
      if (outcome.kind === "result") return outcome.value;
      throw new ToolCallRefused(outcome.refusal);
    };
  };
}

/**
 * The same for tools of OpenAI's Agents SDK: `tool({ execute: protect(operation, handler) })`. `tenant` gets the `RunContext`.
 * If there is no result to return, the tool's output is the text that tells the model what to do: on an error that SDK would
 * only tell the model to try again, which would be a new call.
 *
 * @throws {TypeError} when an option is missing or unknown; `protect` as `mcpProtect`'s does.
 */
export function openaiAgentsProtect<Tx, C extends AgentsContext = AgentsContext>(
  latchkey: Latchkey<Tx>,
  options: AgentToolOptions<C>,
): <E extends DirectExecution, I, R>(
  operation: Operation<E>,
  handler: AgentToolHandler<Tx, E, I, C, R>,
) => (input: I, context?: C, details?: AgentsCall) => Promise<R | string> {
  const protect = protectCalls("openaiAgentsProtect", latchkey, options);
  return (operation, handler) => {
    const execute = protect(operation, handler);
    return async (input, context, details) => {
      if (context === undefined) throw new TypeError("A protected tool needs the SDK's run context");
      const outcome = await execute(input, context, details?.toolCall?.callId);
      return outcome.kind === "result" ? outcome.value : outcome.refusal.message;
    };
  };
}

type Outcome<R> =
  | { readonly kind: "result"; readonly value: R }
  | Extract<ToolOutcome, { readonly kind: "refused" }>;

function protectCalls<Tx, C>(what: string, latchkey: Latchkey<Tx>, options: AgentToolOptions<C>) {
  checkOptions(what, options, optionNames);
  const identity = resolveIdentity(what, options);
  const { key = (callId: string) => callId } = options;
  return <E extends DirectExecution, I, R>(
    operation: Operation<E>,
    handler: AgentToolHandler<Tx, E, I, C, R>,
  ) => {
    checkToolOperation(latchkey, operation, false);
    return async (input: I, call: C, callId: string | undefined): Promise<Outcome<R>> => {
      const sent = callId === undefined || callId === "" ? null : key(callId, call);
      const asked = { ...(await identity(call)), key: sent, input };
      const rules = { choice: "sdk", withoutKey: "refuse" } as const;
      const outcome = await runTool(latchkey, operation, asked, rules, async (context) => ({
        value: await handler(input, { ...context, call }),
        isError: false,
        isInterim: false,
      }));
      return outcome.kind === "result" ? { ...outcome, value: outcome.value as R } : outcome;
    };
  };
}
