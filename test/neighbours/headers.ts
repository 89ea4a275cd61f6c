/** Middleware that sets headers or encodes answers. */
import type { HttpCall } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import type { Traits } from "./table.ts";

export const corsOptions = { origin: "https://shop.example", credentials: true };
const fromShop: HttpCall = { headers: [["Origin", corsOptions.origin]] };
const gzip: HttpCall = { headers: [["Accept-Encoding", "gzip"]] };

export const headers: Traits<"helmet" | "cors" | "compression" | "etag" | "responseTime"> = {
  helmet: {},
  cors: { request: fromShop },
  compression: { request: gzip },
  // A stream is held, so that the middleware finds it whole and gives it the ETag it would not have had.
  etag: { answers: ["json", "text", "none"] },
  responseTime: { random: ["x-response-time", "server-timing", "x-request-id"] },
};
