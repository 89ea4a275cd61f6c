/** A process that only starts a worker. SIGTERM stops it; nothing here ends the process. */
import { ordersService } from "../cli/configs/orders.ts";

const say = (line: Readonly<Record<string, unknown>>) => console.log(JSON.stringify(line));
const { latchkey, close } = ordersService(process.env.WORKER_DATABASE_URL ?? "", (to) => say({ sent: to }));
const worker = latchkey.startWorker();
process.once("SIGTERM", async () => {
  const inTime = await worker.stop();
  await close();
  say({ stopped: true, inTime });
});
