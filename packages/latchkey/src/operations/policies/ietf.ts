import { dayMs, type Policy } from "./policy.ts";

/** The default: implements draft-ietf-httpapi-idempotency-key-header-07 (expired April 2026). */
export const ietf: Policy = {
  name: "ietf",
  key: "required",
  keyForm: { syntax: "compat", minLength: 1 },
  keyScope: "operation",
  body: "auto",
  methods: ["POST", "PATCH"],
  retentionMs: dayMs,
  echoKey: false,
  statuses: {},
  reuse: "reject",
  serverErrors: "by-outcome",
  shouldRetryHeaders: false,
  errorMember: false,
  problemForm: "rfc9457",
};
