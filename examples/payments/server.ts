import type { AddressInfo } from "node:net";
import { createApp } from "./app.ts";
import { openDatabase } from "./database.ts";

const database = await openDatabase(process.env.DATABASE_URL);
const app = createApp(database);
const server = app.listen(Number(process.env.PORT ?? 3000), "127.0.0.1", () => {
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
    server.close(() => void database.close());
    server.closeIdleConnections();
  });
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
`;
}
