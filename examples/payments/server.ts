import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Worker } from "latchkey";
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
const { app, latchkey } = createApp({ ...database, ...settings, mail });
let worker: Worker | null = null;
// Not `app.listen`: Express 5 calls its callback for errors too.
const server = createServer(app);
server.listen(settings.port, "127.0.0.1", () => {
  // Sends receipts, makes reports, and takes up what a process that died has left.
  if (settings.workers) worker = latchkey.startWorker();
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
    server.close(async () => {
      await worker?.stop();
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
  // A new key for every start: yesterday's payment would be replayed.
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
`;
}
