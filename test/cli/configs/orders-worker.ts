import { defineConfig } from "latchkey";
import { ordersService } from "./orders.ts";

const { latchkey, close } = ordersService(process.env.WORKER_DATABASE_URL ?? "", (to) =>
  console.log(JSON.stringify({ sent: to })),
);

// biome-ignore lint/style/noDefaultExport: what the command loads
export default defineConfig({ latchkey, close });
