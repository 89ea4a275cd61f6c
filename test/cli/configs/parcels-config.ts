import { defineConfig } from "latchkey";
import { parcelService, published } from "./parcels.ts";

const service = parcelService(process.env.PARCELS_DATABASE_URL ?? "");

// biome-ignore lint/style/noDefaultExport: what the command loads
export default defineConfig({
  latchkey: service.latchkey,
  republish(message) {
    if (process.env.PARCELS_BROKER_DOWN === message.messageId) throw new Error("the broker is down");
    published.push(message);
  },
});
