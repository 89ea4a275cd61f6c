import ky from "ky";

export const api = ky.create({
  timeout: 10_000,
  retry: {
    methods: ["get", "put", "delete", "post"],
    statusCodes: [408, 409, 425, 429, 500, 502, 503, 504],
    afterStatusCodes: [409, 429, 503],
    retryOnTimeout: true,
  },
});
