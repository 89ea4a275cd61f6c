import { inputRequired } from "@modelcontextprotocol/server";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import {
  call,
  done,
  key,
  problem,
  type Refund,
  refundSchema,
  serve,
  shop,
  tenant,
  text,
} from "../../../../test/support/mcp-shop.ts";
import { createLatchkey } from "../latchkey.ts";
import { memoryStore } from "../stores/memory.ts";
import { mcpProtect, mcpServe } from "./mcp.ts";

describe("results", () => {
  test("an error that the tool reports is stored, unless the handler releases it", async () => {
    let releasing = false;
    const { agent, runs } = shop(async (_, { release }) => {
      if (releasing) release();
      return { isError: true, content: [{ type: "text", text: "declined" }] };
    });
    const client = await agent();
    expect(await call(client, key)).toMatchObject({ isError: true });
    expect(await call(client, key)).toMatchObject({ isError: true, _meta: { "idempotent-replayed": true } });
    releasing = true;
    for (let time = 0; time < 2; time++) await call(client, { idempotencyKey: "k2" });
    expect(runs).toHaveLength(3);
  });

  test("a result that asks for input is not final: the call continues under its key", async () => {
    const requestedSchema = z.object({ confirm: z.boolean() });
    const latchkey = createLatchkey({ store: memoryStore() });
    const operation = latchkey.operation("refund", { execution: "lease" });
    const protect = mcpProtect(latchkey, { tenant });
    const rounds: string[] = [];
    const agent = serve((server) => {
      const tool = protect(operation, async (refund: Refund, { mcp }) => {
        const answered = mcp.mcpReq.inputResponses?.confirm !== undefined;
        rounds.push(answered ? "answered" : "asked");
        if (answered) return done(refund);
        const confirm = inputRequired.elicit({ message: "Sure?", requestedSchema });
        return inputRequired({ inputRequests: { confirm } });
      });
      server.registerTool("refund", { inputSchema: refundSchema }, tool);
    });
    const client = await agent();
    expect(text(await call(client, key))).toBe("refunded 5 of o1");
    expect(rounds).toEqual(["asked", "answered"]);
    expect((await call(client, key))._meta).toMatchObject({ "idempotent-replayed": true });
    expect(rounds).toHaveLength(2);
  });

  test("a tool without input", async () => {
    const latchkey = createLatchkey({ store: memoryStore() });
    const protect = mcpProtect(latchkey, { tenant });
    const ticket = latchkey.operation("ticket", { execution: "lease" });
    let runs = 0;
    const agent = serve((server) => {
      const tool = protect(ticket, async () => {
        runs += 1;
        return { content: [{ type: "text" as const, text: `ticket ${runs}` }] };
      });
      server.registerTool("ticket", {}, tool);
    });
    const client = await agent();
    for (const [meta, expected] of [
      [key, "ticket 1"],
      [key, "ticket 1"],
      [{ idempotencyKey: "k2" }, "ticket 2"],
    ] as const) {
      expect(text(await client.callTool({ name: "ticket", _meta: meta }))).toBe(expected);
    }
  });

  test("a structured result keeps to its schema, and so does its replay", async () => {
    const latchkey = createLatchkey({ store: memoryStore() });
    const protect = mcpProtect(latchkey, { tenant });
    const operation = latchkey.operation("count", { execution: "lease" });
    const agent = serve((server) => {
      const tool = protect(operation, async () => ({
        content: [{ type: "text" as const, text: "1" }],
        structuredContent: { count: 1 },
      }));
      server.registerTool("count", { outputSchema: z.object({ count: z.number() }) }, tool);
    });
    const client = await agent();
    await client.listTools();
    for (let time = 0; time < 2; time++) {
      const result = await client.callTool({ name: "count", _meta: key });
      expect(result.structuredContent).toEqual({ count: 1 });
    }
    expect((await client.callTool({ name: "count" })).isError).toBe(true);
  });
});

describe("operations that own their work", () => {
  function served(answer: { status?: number; body: unknown }) {
    const latchkey = createLatchkey({ store: memoryStore() });
    const inputs: unknown[] = [];
    const charge = latchkey.operation("charge", {
      execution: "lease",
      version: "1",
      run: async (input: { amount: number }) => {
        inputs.push(input);
        return answer;
      },
    });
    const serveTool = mcpServe(latchkey, { tenant });
    const agent = serve((server) => {
      const tool = serveTool(charge, ({ cents }: Refund) => ({ amount: cents }));
      server.registerTool("refund", { inputSchema: refundSchema }, tool);
    });
    return { agent, inputs };
  }

  test("are served: the body is the result", async () => {
    const { agent, inputs } = served({ body: { charged: true } });
    const client = await agent();
    const first = await call(client, key);
    expect(first.structuredContent).toEqual({ charged: true });
    expect(text(first)).toBe('{"charged":true}');
    expect(await call(client, key)).toMatchObject({ ...first, _meta: { "idempotent-replayed": true } });
    expect(inputs).toEqual([{ amount: 5 }]);
    expect(problem(await call(client, {}))).toMatchObject({ code: "missing-key" });
  });

  test("a result in MCP's form is not changed, and a refusal is a tool error", async () => {
    const own = { content: [{ type: "text", text: "mine" }] };
    expect(text(await call(await served({ body: own }).agent(), key))).toBe("mine");
    const refused = await call(await served({ status: 402, body: "declined" }).agent(), key);
    expect([refused.isError, text(refused)]).toEqual([true, "declined"]);
  });
});
