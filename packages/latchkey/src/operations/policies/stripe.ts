import { dayMs, type Policy } from "./policy.ts";

/** Behaves like Stripe's API v1, for clients built against it: optional keys, 400 on misuse, stored 5xx, its form of errors. */
export const stripe: Policy = {
  name: "stripe",
  key: "optional",
  keyForm: { syntax: "compat", minLength: 1 },
  keyScope: "operation",
  body: "auto",
  methods: ["POST", "PATCH"],
  retentionMs: dayMs,
  echoKey: false,
  statuses: { "key-misuse": 400 },
  reuse: "execute",
  serverErrors: "store",
  shouldRetryHeaders: true,
  errorMember: true,
  problemForm: "rfc9457",
};
