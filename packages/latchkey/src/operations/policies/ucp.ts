import { dayMs, type Policy } from "./policy.ts";

/**
 * The Universal Commerce Protocol, REST binding and "Replay Protection" (version of August 2026): keys of at least 128
 * bits, bodies compared byte for byte, 409 on misuse, answers stored for the recommended 48 hours.
 */
export const ucp: Policy = {
  name: "ucp",
  key: "required",
  // 22 alphanumeric characters are the fewest that carry 128 bits.
  keyForm: { syntax: "compat", minLength: 22 },
  keyScope: "operation",
  body: "raw",
  methods: ["POST", "PUT", "PATCH"],
  retentionMs: 2 * dayMs,
  echoKey: false,
  statuses: { "key-misuse": 409 },
  reuse: "execute",
  serverErrors: "by-outcome",
  shouldRetryHeaders: false,
  errorMember: false,
  problemForm: "ucp",
};
