/** Rejects policies with misspelt members. */
import { checkOptions, type OptionNames } from "../known-options.ts";
import type { Policy, ProblemCode } from "./policies/policy.ts";

const policyNames = {
  name: true,
  key: true,
  keyForm: true,
  keyScope: true,
  body: true,
  methods: true,
  retentionMs: true,
  echoKey: true,
  statuses: true,
  reuse: true,
  serverErrors: true,
  shouldRetryHeaders: true,
  errorMember: true,
  problemForm: true,
} as const satisfies OptionNames<Policy>;

const keyFormNames = { syntax: true, minLength: true } as const satisfies OptionNames<Policy["keyForm"]>;

const statusNames = {
  "missing-key": true,
  "invalid-key": true,
  "key-misuse": true,
  "in-progress": true,
  "outcome-unknown": true,
  "commit-in-doubt": true,
  timeout: true,
  expired: true,
  "answer-not-stored": true,
  "request-too-old": true,
  "invalid-request-date": true,
  "payload-too-large": true,
  "too-many-keys": true,
  "not-found": true,
  "store-unavailable": true,
} as const satisfies Readonly<Record<ProblemCode, true>>;

/** @throws {TypeError} for an unknown member, or an unknown code in `statuses` */
export function checkPolicy(what: string, policy: Policy): void {
  checkOptions(what, policy, policyNames);
  checkOptions(`${what}.keyForm`, policy.keyForm ?? {}, keyFormNames);
  checkOptions(`${what}.statuses`, policy.statuses ?? {}, statusNames);
}
