/** Parts of written documents that are made from tables in the code. */
import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { checkStoredHeaders } from "../../packages/latchkey/src/http/protocol/capture.ts";
import { problemTypes } from "../../packages/latchkey/src/http/protocol/problem-types.ts";
import { defineOperation } from "../../packages/latchkey/src/operations/operation.ts";
import type { OwnedOperationOptions } from "../../packages/latchkey/src/operations/owned-operation.ts";
import { acp } from "../../packages/latchkey/src/operations/policies/acp.ts";
import { ietf } from "../../packages/latchkey/src/operations/policies/ietf.ts";
import type { Policy, ProblemCode } from "../../packages/latchkey/src/operations/policies/policy.ts";
import { stripe } from "../../packages/latchkey/src/operations/policies/stripe.ts";
import { ucp } from "../../packages/latchkey/src/operations/policies/ucp.ts";
import { memoryStore } from "../../packages/latchkey/src/stores/memory.ts";
import {
  ageMetric,
  counters,
  depthMetric,
  durationMetric,
  tenantMetric,
  waitingKinds,
} from "../../packages/latchkey/src/telemetry/metric-table.ts";
import type { Captured, ObservedRow } from "../../test/registry/captured.ts";
import { observedRows, provenRows } from "./captured.ts";
import { repositoryRoot } from "./repository.ts";

/**
 * A document with the text between `<!-- generated: name -->` and `<!-- end: name -->` replaced: lines of their own, or a part
 * of one line, as in a cell of a table.
 *
 * @throws {TypeError} when the document has no such part
 */
export function replaceSection(document: string, name: string, text: string): string {
  const begin = `<!-- generated: ${name} -->`;
  const start = document.indexOf(begin);
  const end = document.indexOf(`<!-- end: ${name} -->`, start);
  if (start < 0 || end < 0) throw new TypeError(`The document has no part <!-- generated: ${name} -->`);
  const content = document[start + begin.length] === "\n" ? `\n\n${text}\n\n` : text;
  return `${document.slice(0, start + begin.length)}${content}${document.slice(end)}`;
}

/** A program of `examples/`, as it is: readers may copy it, and `check:docs` compiles it there, too. */
export function renderProgram(path: string): string {
  const text = readFileSync(join(repositoryRoot, path), "utf8");
  return `<!-- file: ${basename(path)} -->\n\`\`\`ts\n${text}\`\`\``;
}

/** What an adapter captures of an answer, and what it does not. */
export function renderCaptured(captured: Captured): string {
  const proven = provenRows.map(({ does, seen }) => [does, ...seen]);
  const names = Object.keys(observedRows) as ObservedRow[];
  const seen = names.flatMap((name) => {
    const cells = captured[name];
    return cells === null ? [] : [[observedRows[name], ...cells]];
  });
  return renderTable(
    ["The handler …", "The first caller gets", "A retry with the key gets"],
    [...proven, ...seen],
  );
}

/** The headers of an answer that are stored without being asked for. */
export function renderStoredHeaders(): string {
  return [...checkStoredHeaders([])].map((name) => `\`${name}\``).join(", ");
}

/** What each choice of a policy decides. A new one needs a text here. */
const choices: Readonly<Record<Exclude<keyof Policy, "name" | "statuses">, string>> = {
  key: "a request without a key (`key`)",
  keyForm: "what a key may look like (`key` of the adapter)",
  keyScope: "what a key is unique in (`keyScope`)",
  body: "how a body is compared (`fingerprint`)",
  methods: "what a mount over a whole app protects (`methods`)",
  retentionMs: "how long an answer is replayed (`retentionMs`)",
  echoKey: "the key is sent back with every answer (`echoKey`)",
  reuse: "a key between the end of retention and being forgotten (`reuse`)",
  serverErrors: "a 5xx answer (`serverErrors`)",
  shouldRetryHeaders: "`Stripe-Should-Retry` and `X-Should-Retry` on problems",
  errorMember: "problem bodies also have an `error` in Stripe's form",
  problemForm: "what a problem's body looks like (`renderProblem`)",
};

/** The policies side by side. */
export function renderPolicies(): string {
  const policies: readonly Policy[] = [ietf, stripe, acp, ucp];
  const codes = Object.keys(problemTypes) as ProblemCode[];
  const differing = codes.filter((code) => policies.some(({ statuses }) => statuses[code] !== undefined));
  return renderTable(
    ["What", ...policies.map(({ name }) => `\`${name}\``)],
    [
      ...Object.entries(choices).map(([field, text]) => [
        text,
        ...policies.map((policy) => describeChoice(policy[field as keyof typeof choices])),
      ]),
      ...differing.map((code) => [
        `status of [\`${code}\`](errors.md#${code})`,
        ...policies.map(({ statuses }) => String(statuses[code] ?? problemTypes[code].status)),
      ]),
    ],
  );
}

function describeChoice(value: Policy[keyof typeof choices]): string {
  if (typeof value === "string") return `\`${value}\``;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return `${value / 3_600_000} h`;
  if ("syntax" in value) return `\`${value.syntax}\`, ${value.minLength} to 255 characters`;
  return value.map((method) => `\`${method}\``).join(", ");
}

/** Every metric, and what it counts. */
export function renderMetrics(): string {
  return renderTable(
    ["Metric", "What"],
    [
      ...Object.entries({ ...counters, [tenantMetric.name]: tenantMetric.help }).map(([name, help]) => [
        `\`${name}\``,
        help,
      ]),
      [`\`${durationMetric.name}\``, `${durationMetric.help} (histogram, unit s)`],
      [
        `\`${depthMetric.name}\``,
        `${depthMetric.help} (gauge). Kinds: ${waitingKinds.map((kind) => `\`${kind}\``).join(", ")}`,
      ],
      [`\`${ageMetric.name}\``, `${ageMetric.help} (gauge, unit s)`],
    ],
  );
}

/** What an operation's options are when they are not set. A new one needs a text here. */
const options: Readonly<Record<keyof OwnedOperationOptions<never, never>, OptionText>> = {
  execution: [
    "`transaction`",
    "`transaction`, `lease` or `deferred`: [what each means](#transaction-or-lease). On a store without transactions the default is `lease`",
  ],
  run: [
    "none",
    "the work, of an operation that [owns its work](http.md#operations-that-own-their-work); needed under `deferred`",
  ],
  version: ["none", "with `run`: change it whenever the list of steps changes"],
  key: "`required` or `optional`",
  keyScope: "what a key is unique in: `operation`, operation and `path`, or the whole `tenant`",
  waitMs:
    "how long a duplicate of a running request waits for its answer; `false`: not at all. Under `deferred` it must be `false`: clients ask at the status resource",
  retentionMs: "how long the answer can be replayed",
  forgetAfterMs: ["`retentionMs`", "when the key may run as new; not before `retentionMs`"],
  reuse: "between the two: `reject` (410) or `execute`",
  serverErrors: "what a 5xx means: `by-outcome`, `store` or `release`",
  answerLimitBytes: "larger answers are sent once and leave a tombstone",
  answerHoldBytes: "larger answers fail the attempt",
  facts: "whether requests that came again, and what look-ups found, are kept for people: [data](data.md)",
  summary: "what of the request is kept with its record for support: `true` or `{ fields }`",
  admission:
    "`transaction`: when the handler starts: once its request is known to be the first (`pessimistic`), or at once ([`optimistic`](optimistic-admission.md))",
  isolation: "`transaction`, and phases: isolation level; none: the database's own",
  transactionLimitMs:
    "`transaction`, and phases: how long the handler or the phase may take, then it is rolled back",
  writes: "`transaction`: `none` says that a 2xx without a write through `tx` is meant",
  pendingLimitMs: "`deferred`: how long a request may wait for a worker, then its answer is 408",
  leaseMs: "`lease`, `deferred`: how long a silent owner keeps the key",
  attemptLimitMs:
    "`lease`, `deferred`: the attempt's time; then its outcome is unknown, or the next attempt continues if the operation owns its work and no call is in doubt",
  leaseEnd:
    "`lease`, `deferred`: what a dead attempt means: `reconcile` (unknown), `resume` or `rerun`. Under `deferred` the default is `resume`, and `rerun` is refused",
  attemptsMax:
    "`lease`, `deferred`: how often one life may start under `resume` or `rerun`; under `deferred`, failed attempts count, too",
  isNotExecuted: "`lease`: which errors of a handler prove that nothing happened, beside `NotExecuted`",
  lookup: "`lease`, `deferred`: asks the other service what became of an attempt whose outcome is unknown",
  onStoreFailure: "`lease`, with a handler: without a store, `refuse` or `run-unprotected`",
};

/** Every option of an operation with its default. */
export function renderOptions(): string {
  const { capabilities } = memoryStore();
  const { settings } = defineOperation("defaults", {}, ietf, capabilities);
  return renderOptionTable(options, settings);
}

/** What an option decides; with the default before it where the resolved settings do not show that. */
export type OptionText = string | readonly [standard: string, decides: string];

/**
 * A table of options.
 *
 * @param settings what is resolved when they are not set
 * @throws {TypeError} when neither the text nor the settings have an option's default
 */
export function renderOptionTable(texts: Readonly<Record<string, OptionText>>, settings: object): string {
  const resolved = new Map<string, unknown>(Object.entries(settings));
  return renderTable(
    ["Option", "Default", "What it decides"],
    Object.entries(texts).map(([name, text]) => [
      `\`${name}\``,
      ...(typeof text === "string" ? [describeDefault(name, resolved.get(name)), text] : text),
    ]),
  );
}

function describeDefault(name: string, value: unknown): string {
  if (name in ietf) return "the policy's";
  if (value === null || typeof value === "function") return "none";
  if (value === undefined || typeof value === "object")
    throw new TypeError(`${name}: say what its default is`);
  if (typeof value !== "number") return `\`${value}\``;
  const units = name.endsWith("Ms") ? durations : name.endsWith("Bytes") ? sizes : [];
  const [size = 1, unit = ""] =
    units.find(([each, , from = each]) => value % each === 0 && value >= from) ?? [];
  return `${value / size} ${unit}`.trim();
}

/** A unit's size and name, and the shortest duration that is given in it. */
const durations: readonly (readonly [size: number, unit: string, from?: number])[] = [
  [86_400_000, "days", 2 * 86_400_000],
  [3_600_000, "h"],
  [60_000, "min"],
  [1_000, "s"],
];
const sizes: typeof durations = [[1024 * 1024, "MiB"]];

/** A Markdown table. */
export function renderTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((text) => text.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}
