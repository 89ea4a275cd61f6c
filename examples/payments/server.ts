import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { leaseRescuer, outcomeReconciler, recordCleaner } from "latchkey";
import { createApp } from "./app.ts";
import { openDatabase } from "./database.ts";
import { readSettings } from "./settings.ts";

const settings = settingsOrExit();
const database = await openDatabase(settings.databaseUrl).catch((error: Error) => {
  console.error(`Cannot open the database: ${error.message}`);
  process.exit(1);
});
const { app, latchkey } = createApp({ ...database, ...settings });
// What a process that died has left is taken up also when its client never comes back.
const services = settings.workers
  ? [recordCleaner(latchkey), leaseRescuer(latchkey), outcomeReconciler(latchkey)]
  : [];
// Not `app.listen`: Express 5 calls its callback for errors too.
const server = createServer(app);
server.listen(settings.port, "127.0.0.1", () => {
  for (const service of services) service.start();
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
      await Promise.all(services.map((service) => service.stop()));
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

See what was charged:
  curl ${url}/payments -H 'Authorization: Bearer demo-token'

What happens when the process dies in the middle of a charge: npm run demo:crash
`;
}
