import { randomBytes } from "node:crypto";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { consoleHandler, createHistory, nodeConsole } from "latchkey-console";
import { createApp } from "./app.ts";
import { openDatabase } from "./database.ts";
import { openMailService } from "./receipts.ts";
import { readSettings } from "./settings.ts";

const settings = settingsOrExit();
const database = await openDatabase(settings.databaseUrl).catch((error: Error) => {
  console.error(`Cannot open the database: ${error.message}`);
  process.exit(1);
});
const mail = openMailService("./.latchkey/receipts.jsonl");
const history = createHistory();
const { app, latchkey } = createApp({ ...database, ...settings, mail, onEvent: history.onEvent });
const consolePath = "/console";
// New for every start. A real service uses its own authentication: `consoleHandler({ authorize })`.
const consoleToken = randomBytes(24).toString("base64url");
let serveConsole: RequestListener = (_req, res) => res.writeHead(503).end();
// Not `app.listen`: Express 5 also calls its callback for errors.
const server = createServer((req, res) =>
  req.url === consolePath || req.url?.startsWith(`${consolePath}/`) ? serveConsole(req, res) : app(req, res),
);
server.listen(settings.port, "127.0.0.1", () => {
  // Sends receipts, creates reports, and resumes the work of processes that died.
  const worker = settings.workers ? { worker: latchkey.startWorker() } : {};
  const options = {
    latchkey,
    history,
    token: consoleToken,
    basePath: consolePath,
    title: "payments example",
  };
  serveConsole = nodeConsole(consoleHandler({ ...options, ...worker }));
  const { port } = server.address() as AddressInfo;
  console.log(greeting(`http://127.0.0.1:${port}`, database.description));
});
server.on("error", (error) => {
  console.error(`Cannot listen: ${error.message}. Try PORT=0 npm start.`);
  process.exitCode = 1;
  void database.close();
});

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => {
    const ended = latchkey.close();
    server.close(async () => {
      await ended;
      await database.close();
    });
    server.closeIdleConnections();
  });
}

function settingsOrExit() {
  try {
    return readSettings(process.env);
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exit(2);
  }
}

function greeting(url: string, description: string): string {
  // A new key for every start; otherwise yesterday's payment would be replayed.
  const key = `order-${Date.now().toString(36)}`;
  const pay = (amount: number) =>
    `  curl -i ${url}/payments -H 'Authorization: Bearer demo-token' -H 'Content-Type: application/json' \\
       -H 'Idempotency-Key: ${key}' -d '{"amount": ${amount}}'`;
  return `Payments API on ${url}, keeping its data in ${description}.

Pay:
${pay(500)}

Retry the same (same answer, marked Idempotent-Replayed; still one payment):
${pay(500)}

Retry with another amount (refused with 422; nothing is charged):
${pay(900)}

See what was charged, and the receipts that a worker has sent:
  curl ${url}/payments -H 'Authorization: Bearer demo-token'
  curl ${url}/receipts -H 'Authorization: Bearer demo-token'

Ask for a report (answered 202 at once; a worker makes it), then fetch it from its Location:
  curl -i -X POST ${url}/reports -H 'Authorization: Bearer demo-token' -H 'Idempotency-Key: ${key}-report'
  curl -i ${url}/operations/<id> -H 'Authorization: Bearer demo-token'

What happens when the process dies in the middle of a charge: npm run demo:crash

The console, for the person on call (sign in with any name):
  ${url}${consolePath}/#token=${consoleToken}

Something to see in it, an outcome that is unknown and a dead letter:
  curl -X POST ${url}/trouble/unknown -H 'Authorization: Bearer demo-token' -H 'Idempotency-Key: ${key}-transfer'
  curl -X POST ${url}/trouble/dead -H 'Authorization: Bearer demo-token' -H 'Idempotency-Key: ${key}-invitation'

The same from a shell, while this runs:
  npm run latchkey -- list --console '${url}${consolePath}/#token=${consoleToken}'
`;
}
