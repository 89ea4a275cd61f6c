/** The example of webhooks, as a user runs it. */
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { spawnWorker } from "../support/processes.ts";
import { freshDatabase } from "../support/shared-postgres.ts";

test("an event of Stripe's is booked once, and a forged one not at all", async () => {
  const script = new URL("../../examples/webhooks/stripe.ts", import.meta.url);
  const { url } = await freshDatabase();
  const example = spawnWorker(fileURLToPath(script), { env: { DATABASE_URL: url } });
  const { code } = await example.exited;
  expect(code, example.stderr()).toBe(0);
  expect(example.lines.map(({ text }) => text)).toEqual([
    "refused: signature-invalid",
    "forged: 400, repeated false",
    "first: 200, repeated false",
    "again: 200, repeated true",
    "payments: 1",
  ]);
});
