/** A service as `DOCTOR` says, in JSON. */
import { openService } from "../doctor-service.ts";

// biome-ignore lint/style/noDefaultExport: what the command loads
export default await openService(JSON.parse(process.env.DOCTOR ?? "{}"));
