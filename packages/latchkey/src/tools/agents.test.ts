import { Agent, tool as agentsTool, type RunContext, Runner } from "@openai/agents";
import { assistantMessage, functionCall, ScriptedModel } from "@openai/agents/testing";
import { generateText, stepCountIs, type ToolExecutionOptions, tool } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { createGate } from "../../../latchkey-conformance/src/http-conformance/case.ts";
import { isLatchkeyError, ToolCallRefused } from "../errors.ts";
import { createLatchkey } from "../latchkey.ts";
import { memoryStore } from "../stores/memory.ts";
import { type AgentToolOptions, aiSdkProtect, openaiAgentsProtect } from "./agents.ts";

const inputSchema = z.object({ order: z.string(), cents: z.number() });
type Refund = z.infer<typeof inputSchema>;
type Account = { account: string };
type Call = ToolExecutionOptions<Account>;

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 1, text: 1, reasoning: undefined },
};

/** A model that calls the tool once, under this id, and then ends. */
function aiModel(toolCallId: string, input: Refund): MockLanguageModelV4 {
  return new MockLanguageModelV4({
    doGenerate: [
      {
        content: [{ type: "tool-call", toolCallId, toolName: "refund", input: JSON.stringify(input) }],
        finishReason: { unified: "tool-calls", raw: undefined },
        usage,
        warnings: [],
      },
      {
        content: [{ type: "text", text: "done" }],
        finishReason: { unified: "stop", raw: undefined },
        usage,
        warnings: [],
      },
    ],
  });
}

const refund: Refund = { order: "o1", cents: 5 };

describe("tools of the AI SDK", () => {
  function shop(
    handle: (input: Refund, run: number) => Promise<unknown>,
    options: Partial<AgentToolOptions<Call>> = {},
  ) {
    const latchkey = createLatchkey({ store: memoryStore() });
    const protect = aiSdkProtect(latchkey, {
      tenant: ({ context }: Call) => context.account,
      ...options,
    } as AgentToolOptions<Call>);
    const operation = latchkey.operation("refund", { execution: "lease" });
    const runs: Refund[] = [];
    const tools = {
      refund: tool({
        inputSchema,
        contextSchema: z.object({ account: z.string() }),
        execute: protect(operation, async (input: Refund) => {
          runs.push(input);
          return handle(input, runs.length);
        }),
      }),
    };
    const ask = async (toolCallId: string, { input = refund, account = "acme" } = {}) => {
      const { steps } = await generateText({
        model: aiModel(toolCallId, input),
        tools,
        toolsContext: { refund: { account } },
        stopWhen: stepCountIs(3),
        prompt: "Refund my order",
      });
      const [part] = (steps[0]?.content ?? []).filter(
        ({ type }) => type.startsWith("tool-") && type !== "tool-call",
      );
      return part?.type === "tool-result" ? part.output : part?.type === "tool-error" ? part.error : part;
    };
    return { ask, runs, tools };
  }

  test("one call runs once, even if the agent's run is repeated", async () => {
    const { ask, runs } = shop(async ({ cents }, run) => ({ refunded: cents, run }));
    const first = await ask("call_1");
    expect(first).toEqual({ refunded: 5, run: 1 });
    expect(await ask("call_1")).toEqual(first);
    expect(await ask("call_2")).toEqual({ refunded: 5, run: 2 });
    expect(runs).toHaveLength(2);
  });

  test("the same id in another account, or in another conversation of the key, is another call", async () => {
    const { ask, runs } = shop(async (_, run) => run);
    expect([await ask("call_0"), await ask("call_0", { account: "other" })]).toEqual([1, 2]);
    expect(runs).toHaveLength(2);
    let conversation = "c1";
    const counted = shop(async (_, run) => run, { key: (id) => `${conversation} ${id}` });
    expect(await counted.ask("0")).toBe(1);
    conversation = "c2";
    expect(await counted.ask("0")).toBe(2);
  });

  test("other arguments under the same id are refused, and the model gets the reason", async () => {
    const { ask, runs } = shop(async () => "done");
    await ask("call_1");
    const refused = await ask("call_1", { input: { order: "o1", cents: 500 } });
    expect(refused).toBeInstanceOf(ToolCallRefused);
    expect(refused).toMatchObject({ reason: "key-misuse", retryable: false, safeNewKey: false });
    expect(String(refused)).toContain("other arguments");
    expect(isLatchkeyError(refused)).toBe(true);
    expect(runs).toHaveLength(1);
  });

  test("while the first run has not ended, the model is asked not to call again", async () => {
    const gate = createGate();
    const { ask, runs } = shop(async () => {
      await gate.pass();
      return "done";
    });
    const first = ask("call_1");
    await gate.arrived;
    const refused = await ask("call_1");
    expect(refused).toMatchObject({ reason: "in-progress", safeNewKey: false });
    expect(String(refused)).toContain("Do not call the tool again for the same purpose");
    gate.open();
    expect(await first).toBe("done");
    expect(runs).toHaveLength(1);
  });

  test("a failure that leaves the outcome open is reported as such, and does not run again", async () => {
    const { ask, runs } = shop(async () => {
      throw new Error("socket hang up");
    });
    for (let time = 0; time < 2; time++) {
      expect(await ask("call_1")).toMatchObject({ reason: "outcome-unknown", safeNewKey: false });
    }
    expect(runs).toHaveLength(1);
  });

  test("nothing runs without an account or an id", async () => {
    const { ask, runs, tools } = shop(async () => "done");
    expect(await ask("call_1", { account: "" })).toMatchObject({ code: "tenant-missing" });
    const bare = { toolCallId: "", messages: [], context: { account: "acme" } };
    await expect(tools.refund.execute?.(refund, bare)).rejects.toMatchObject({ reason: "missing-key" });
    expect(runs).toEqual([]);
  });
});

describe("tools of OpenAI's Agents SDK", () => {
  type Context = RunContext<Account>;

  function shop(handle: (input: Refund, run: number) => Promise<unknown>) {
    const latchkey = createLatchkey({ store: memoryStore() });
    const protect = openaiAgentsProtect(latchkey, { tenant: ({ context }: Context) => context.account });
    const operation = latchkey.operation("refund", { writes: "none" });
    let runs = 0;
    const execute = protect(operation, async (input: Refund) => {
      runs += 1;
      return handle(input, runs);
    });
    const refundTool = agentsTool<typeof inputSchema, Account>({
      name: "refund",
      description: "Refunds an order",
      parameters: inputSchema,
      execute,
    });
    const ask = async (callId: string, { input = refund, account = "acme" } = {}) => {
      const script = [[functionCall("refund", input, { callId })], [assistantMessage("done")]];
      const agent = new Agent<Account>({
        name: "shop",
        model: new ScriptedModel(script),
        tools: [refundTool],
      });
      const runner = new Runner({ tracingDisabled: true });
      const { newItems } = await runner.run(agent, "Refund my order", { context: { account } });
      const result = newItems.find(({ type }) => type === "tool_call_output_item");
      return result?.type === "tool_call_output_item" ? result.output : undefined;
    };
    return { ask, execute, runs: () => runs };
  }

  test("one call runs once, even if the agent's run is repeated", async () => {
    const { ask, runs } = shop(async ({ cents }, run) => `refunded ${cents}, run ${run}`);
    expect(await ask("call_1")).toBe("refunded 5, run 1");
    expect(await ask("call_1")).toBe("refunded 5, run 1");
    expect(await ask("call_2")).toBe("refunded 5, run 2");
    expect(await ask("call_1", { account: "other" })).toBe("refunded 5, run 3");
    expect(runs()).toBe(3);
  });

  test("the model gets the reason why there is no result", async () => {
    const { ask, runs } = shop(async () => "done");
    await ask("call_1");
    const reply = await ask("call_1", { input: { order: "o1", cents: 500 } });
    expect(reply).toContain("other arguments");
    expect(runs()).toBe(1);
  });

  test("an error of a transaction's handler rolls back, so the SDK's advice to try again is right", async () => {
    const { ask, runs } = shop(async (_, run) => {
      if (run === 1) throw new Error("deadlock");
      return "done";
    });
    expect(await ask("call_1")).toContain("try again");
    expect(await ask("call_1")).toBe("done");
    expect(runs()).toBe(2);
  });

  test("without the SDK's context or an id nothing runs", async () => {
    const { execute, runs } = shop(async () => "done");
    await expect(execute(refund)).rejects.toThrow(TypeError);
    const context = { context: { account: "acme" } } as Context;
    expect(await execute(refund, context)).toContain("Nothing was done");
    expect(runs()).toBe(0);
  });
});
