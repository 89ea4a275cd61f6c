/**
 * An MCP server whose tool refunds an order, and an agent that calls it again because it lost the first result.
 * DATABASE_URL=postgres://… npm run mcp -w latchkey-example-agents
 */
import type { AddressInfo } from "node:net";
import { createAdaptorServer } from "@hono/node-server";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import {
  createMcpHandler,
  McpServer,
  type ServerContext,
  verifyBearerToken,
} from "@modelcontextprotocol/server";
import { createLatchkey } from "latchkey";
import { mcpProtect } from "latchkey/mcp";
import { migratePostgres, postgresStore } from "latchkey/postgres";
import pg from "pg";
import { z } from "zod";

const connectionString = process.env.DATABASE_URL;
if (connectionString === undefined) throw new TypeError("Set DATABASE_URL to a Postgres");
const pool = new pg.Pool({ connectionString, connectionTimeoutMillis: 3_000 });
pool.on("error", console.error);

const latchkey = createLatchkey({ store: postgresStore({ pool }) });
const refundOrder = latchkey.operation("orders.refund");
const protect = mcpProtect(latchkey, {
  // The tenant is the account of the token, from the verifier below. The model's arguments cannot choose it. `clientId` would be
  // wrong: it names the agent's application, and all of its users would share their keys.
  tenant: (context: ServerContext) => context.http?.authInfo?.extra?.account as string | undefined,
});

function shop(): McpServer {
  const server = new McpServer({ name: "shop", version: "1.0.0" });
  server.registerTool(
    "refund",
    {
      description: "Refunds an order. Needs an idempotency key in _meta.",
      inputSchema: z.object({ order: z.string(), cents: z.number().int() }),
    },
    protect(refundOrder, async ({ order, cents }: { order: string; cents: number }, { tx, attempt }) => {
      await tx.query("insert into refunds (id, order_id, cents) values ($1, $2, $3)", [
        attempt.id,
        order,
        cents,
      ]);
      return { content: [{ type: "text", text: `Refunded ${cents} cents of ${order}.` }] };
    }),
  );
  return server;
}

/** A placeholder for your own identity provider. */
const verifier = {
  async verifyAccessToken(token: string) {
    if (token !== "secret") throw new Error("unknown token");
    const expiresAt = Date.now() / 1000 + 3600;
    return { token, clientId: "an-agent", scopes: [], expiresAt, extra: { account: "account-1" } };
  },
};

const mcp = createMcpHandler(shop);
const server = createAdaptorServer({
  fetch: async (request: Request) => {
    const authInfo = await verifyBearerToken(request.headers.get("authorization"), { verifier });
    return mcp.fetch(request, { authInfo });
  },
});

await migratePostgres(pool);
await pool.query("create table if not exists refunds (id uuid primary key, order_id text, cents int)");
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const { port } = server.address() as AddressInfo;

const agent = new Client({ name: "agent", version: "1.0.0" });
const headers = { Authorization: "Bearer secret" };
await agent.connect(
  new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${port}/mcp`), { requestInit: { headers } }),
);

const key = process.env.KEY ?? crypto.randomUUID();
async function refund(what: string, cents: number, meta: Record<string, string>): Promise<void> {
  const call = { name: "refund", arguments: { order: "order-7", cents }, _meta: meta };
  const { content, isError, _meta } = await agent.callTool(call);
  const [said] = content;
  const text = said?.type === "text" ? said.text : "";
  console.log(
    `${what}: ${isError ? "error" : "done"}, replay ${_meta?.["idempotent-replayed"] ?? false}: ${text}`,
  );
}
await refund("first", 500, { "idempotency-key": key });
await refund("retry", 500, { "idempotency-key": key });
await refund("other", 900, { "idempotency-key": key });
await refund("without", 500, {});
const { rows } = await pool.query<{ count: string }>("select count(*) from refunds");
console.log(`refunds: ${rows[0]?.count}`);

await agent.close();
await mcp.close();
await new Promise((resolve) => server.close(resolve));
await latchkey.close();
await pool.end();
