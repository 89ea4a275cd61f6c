import { defineConfig } from "latchkey";
import { parcelService } from "./parcels.ts";

// biome-ignore lint/style/noDefaultExport: what the command loads
export default defineConfig({ latchkey: parcelService(process.env.PARCELS_DATABASE_URL ?? "").latchkey });
