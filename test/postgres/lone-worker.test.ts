/** A process in which nothing but a worker runs: it outlives its database, and ends when the worker has stopped. */
import { fileURLToPath } from "node:url";
import { beforeAll, expect, test } from "vitest";
import { ordersService } from "../cli/configs/orders.ts";
import { type PrivatePostgres, startPostgres } from "../support/private-postgres.ts";
import { spawnWorker } from "../support/processes.ts";
import { onRelease } from "../support/resources.ts";
import { prepareDatabase } from "./harness.ts";

const path = (file: string) => fileURLToPath(new URL(file, import.meta.url));
const script = path("lone-worker-process.ts");
const main = path("../../packages/latchkey/src/cli/main.ts");
const config = path("../cli/configs/orders-worker.ts");

let server: PrivatePostgres;
beforeAll(async () => {
  server = await startPostgres();
  onRelease(() => server.stop());
  await prepareDatabase(server.url);
});

test.each([
  ["a script", script, []],
  ["the command", main, ["worker", "--config", config]],
] as const)(
  "%s goes on delivering after its database was gone, and ends by itself",
  async (_, file, args) => {
    const service = ordersService(server.url, () => {
      throw new Error("requests send nothing");
    });
    onRelease(() => service.close());
    const order = (key: string) =>
      service.latchkey.run(service.create, { tenant: file, key, input: null }, async ({ attempt }) => {
        attempt.enqueue(service.receipt, { to: key });
      });
    const worker = spawnWorker(file, { args, env: { WORKER_DATABASE_URL: server.url } });
    await order("before");
    await worker.line((line) => line.sent === "before");
    await server.kill9();
    await server.start();
    await order("after");
    await worker.line((line) => line.sent === "after", 20_000);
    expect(await worker.kill("SIGTERM")).toEqual({ code: 0, signal: null });
    expect(worker.lines.at(-1)).toMatchObject({ stopped: true });
  },
);
