/** A shop as an MCP server, through the real server, its HTTP handler and the real client. */
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import {
  type CallToolResult,
  createMcpHandler,
  McpServer,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { z } from "zod";
import { createLatchkey, type Latchkey } from "../../packages/latchkey/src/latchkey.ts";
import type { OperationOptions } from "../../packages/latchkey/src/operations/operation.ts";
import { memoryStore } from "../../packages/latchkey/src/stores/memory.ts";
import type { LatchkeyEvent } from "../../packages/latchkey/src/telemetry/events.ts";
import { faultyStore } from "../../packages/latchkey/src/testing/faulty-store.ts";
import { type McpOptions, mcpProtect } from "../../packages/latchkey/src/tools/mcp.ts";
import { onRelease } from "./resources.ts";

export const tenant = ({ http }: ServerContext) => http?.authInfo?.extra?.account as string | undefined;
export const refundSchema = z.object({ order: z.string(), cents: z.number() });
export type Refund = z.infer<typeof refundSchema>;

export interface Shop {
  readonly latchkey: Latchkey<unknown>;
  readonly runs: Refund[];
  readonly events: LatchkeyEvent[];
  /** A connected client of this account. */
  agent(account?: string, era?: "modern" | "legacy"): Promise<Client>;
  setStoreDown(down: boolean): void;
}

/** A real MCP server whose tool `refund` is protected, behind its real HTTP handler. */
export function shop(
  handle: (refund: Refund, more: { release(): void; mcp: ServerContext }) => Promise<CallToolResult>,
  options: Partial<McpOptions<ServerContext>> = {},
  operationOptions: OperationOptions<"lease"> = {},
): Shop {
  const runs: Refund[] = [];
  const events: LatchkeyEvent[] = [];
  let down = false;
  const { store } = faultyStore(memoryStore(), () => (down ? "not_sent" : "proceed"));
  const latchkey = createLatchkey<unknown>({ store, onEvent: (event) => events.push(event) });
  const operation = latchkey.operation("refund", { execution: "lease", ...operationOptions });
  const protect = mcpProtect(latchkey, { tenant, ...options } as McpOptions<ServerContext>);
  const tool = protect(operation, async (refund: Refund, { attempt, mcp }) => {
    runs.push(refund);
    return handle(refund, { release: () => attempt.release(), mcp });
  });
  const agent = serve((server) => {
    server.registerTool("refund", { inputSchema: refundSchema }, tool);
  });
  return {
    latchkey,
    runs,
    events,
    agent,
    setStoreDown(to) {
      down = to;
    },
  };
}

export function serve(register: (server: McpServer) => void): Shop["agent"] {
  const handler = createMcpHandler(() => {
    const server = new McpServer({ name: "shop", version: "1" });
    register(server);
    return server;
  });
  onRelease(() => handler.close());
  return async (account = "acme", era = "modern") => {
    const negotiation = era === "modern" ? ({ versionNegotiation: { mode: "auto" } } as const) : {};
    const capabilities = { elicitation: {} };
    const client = new Client({ name: "agent", version: "1" }, { capabilities, ...negotiation });
    client.setRequestHandler("elicitation/create", async () => ({
      action: "accept",
      content: { confirm: true },
    }));
    // All accounts use one application.
    const authInfo = { token: "t", clientId: "an-agent", scopes: [], extra: { account } };
    const transport = new StreamableHTTPClientTransport(new URL("http://shop.example/mcp"), {
      fetch: async (url, init) => handler.fetch(new Request(url, init), { authInfo }),
    });
    await client.connect(transport);
    onRelease(() => client.close());
    return client;
  };
}

export const done = async ({ order, cents }: Refund): Promise<CallToolResult> => ({
  content: [{ type: "text", text: `refunded ${cents} of ${order}` }],
  _meta: { own: 1 },
});

export function call(client: Client, meta: Record<string, unknown>, more: Partial<Refund> = {}) {
  return client.callTool({ name: "refund", arguments: { order: "o1", cents: 5, ...more }, _meta: meta });
}

export const key = { "idempotency-key": "k1" };
export const problem = (result: CallToolResult) => result._meta?.["idempotency-problem"];
export const text = ({ content: [first] }: CallToolResult) => (first?.type === "text" ? first.text : "");
