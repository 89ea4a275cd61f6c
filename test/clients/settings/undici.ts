import { Agent, RetryAgent } from "undici";

export function retryAgent(headersTimeout = 10_000): RetryAgent {
  return new RetryAgent(new Agent({ headersTimeout }), {
    methods: ["GET", "PUT", "DELETE", "POST"],
    statusCodes: [409, 425, 429, 500, 502, 503, 504],
    errorCodes: ["ECONNRESET", "ECONNREFUSED", "EPIPE", "UND_ERR_SOCKET", "UND_ERR_HEADERS_TIMEOUT"],
  });
}
