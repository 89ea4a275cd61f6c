import { dayMs, type Policy } from "./policy.ts";

/**
 * The Agentic Commerce Protocol, section 6 of its checkout RFC (version 2026-04-17): required opaque keys, unique within
 * identity and path; flat errors; the key echoed; 5xx answers never stored.
 */
export const acp: Policy = {
  name: "acp",
  key: "required",
  keyForm: { syntax: "opaque", minLength: 1 },
  keyScope: "path",
  body: "auto",
  methods: ["POST", "PATCH"],
  retentionMs: dayMs,
  echoKey: true,
  statuses: {},
  reuse: "execute",
  serverErrors: "release",
  shouldRetryHeaders: false,
  errorMember: false,
  problemForm: "acp",
};
