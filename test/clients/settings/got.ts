import got from "got";

export const api = got.extend({
  timeout: { request: 10_000 },
  retry: {
    methods: ["GET", "PUT", "DELETE", "POST"],
    statusCodes: [408, 409, 425, 429, 500, 502, 503, 504],
    // Without it Got gives up when Retry-After is longer than `timeout.request`.
    maxRetryAfter: 60_000,
  },
});
