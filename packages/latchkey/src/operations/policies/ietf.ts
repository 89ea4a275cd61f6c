import type { Policy } from "./policy.ts";

/** The default: implements draft-ietf-httpapi-idempotency-key-header-07 (expired April 2026). */
export const ietf: Policy = {
  name: "ietf",
  key: "required",
  statuses: {},
  reuse: "reject",
  serverErrors: "by-outcome",
  shouldRetryHeaders: false,
  errorMember: false,
};
