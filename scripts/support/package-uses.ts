/** Programs that use the packed packages as their users do. `npm run check:package` type-checks and runs them. */

/** Serves the page as a service does that has both packages, and reads each file that the page names. */
export const consoleUse = `
import { createLatchkey } from "latchkey";
import { memoryStore } from "latchkey/memory";
import { consoleHandler } from "latchkey-console";

const handler = consoleHandler({ latchkey: createLatchkey({ store: memoryStore() }), token: "a token of the check" });
const get = (path: string, headers: Record<string, string> = {}) => handler(new Request("http://check.test" + path, { headers }));
const page = await (await get("/")).text();
for (const [, path] of page.matchAll(/(?:src|href)="(\\/[^"]+)"/gu)) {
  const response = await get(path ?? "");
  if (response.status !== 200 || response.headers.get("content-type")?.includes("html")) throw new Error("no " + path);
  console.log(path);
}
const counted = await get("/api/depths", { authorization: "Bearer a token of the check" });
console.log("counted", counted.status);
`;

/** Runs the store suite over the packed library's memory store. */
export const conformanceUse = `
import { memoryStore } from "latchkey/memory";
import { storeConformance } from "latchkey-conformance";

const cases: (() => Promise<void>)[] = [];
storeConformance({
  test: (_name, body) => cases.push(body),
  clock: "frozen",
  capabilities: memoryStore().capabilities,
  factory() {
    let now = Date.UTC(2026, 0, 1);
    const store = memoryStore({ now: () => now });
    return {
      store,
      advance(milliseconds) {
        now += milliseconds;
      },
      business: {
        write: (tx, row) => tx.insert("orders", { row }),
        committedRows: async () => store.rows("orders").map(({ row }) => String(row)),
      },
      close() {},
    };
  },
});
for (const body of cases) await body();
console.log("cases passed", cases.length);
`;

/** Serves a route on the packed library, and probes it with the packed command. */
export const probeUse = `
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createLatchkey } from "latchkey";
import { memoryStore } from "latchkey/memory";
import { nodeProtect } from "latchkey/node";
import { profiles } from "latchkey-probe";

const latchkey = createLatchkey({ store: memoryStore() });
const protect = nodeProtect(latchkey, { tenant: () => "check" });
const create = protect(latchkey.operation("create"), async (_req, res, { tx, attempt }) => {
  await tx.insert("things", { id: attempt.id });
  res.writeHead(201, { "content-type": "application/json" }).end(JSON.stringify({ id: attempt.id }));
});
const server = createServer((req, res) => {
  // A request that the probe has cut off.
  create(req, res).catch(() => res.destroy());
});
server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const operation = { requestBody: { content: { "application/json": { example: { amount: 1 } } } } };
  writeFileSync("api.json", JSON.stringify({ openapi: "3.1.0", paths: { "/things": { post: operation } } }));
  const profile = ["--profile", profiles.ietf.name];
  const args = ["http://127.0.0.1:" + port, "--openapi", "api.json", "--rate", "1000", ...profile];
  const probe = spawn("node_modules/.bin/latchkey-probe", args, { stdio: "inherit" });
  probe.on("exit", (code) => {
    process.exitCode = code ?? 1;
    server.close();
  });
});
`;
