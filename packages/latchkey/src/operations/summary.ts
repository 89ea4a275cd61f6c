/** A short form of a request, stored with its record for people who support its sender. */
import { checkFieldNames } from "../fingerprint/business-fields.ts";
import { checkOptions, type OptionNames } from "../known-options.ts";

export interface SummaryOptions {
  /**
   * Members of the JSON body, or of the input, by name or by a path with dots, such as `customer.id`; at most 20. Do not choose
   * any that people with access to records must not see. Default: none.
   */
  readonly fields?: readonly string[];
}

/** Null: no summary is stored. */
export type SummarySettings = { readonly fields: readonly string[] } | null;

export interface RequestSummary {
  /** Null if it was not an HTTP request. */
  readonly method: string | null;
  /** Without query, at most 500 characters. */
  readonly path: string | null;
  /** The fields that were present; texts are cut at 200 characters, and larger values are replaced with `…`. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** Some fields did not fit. Absent: the summary is complete. */
  readonly truncated?: true;
}

/** Where a stored value comes from. */
export interface StoredValue {
  readonly part: "summary" | "input" | "answer" | "result" | "payload";
  readonly operation: string;
  readonly tenant: string | null;
}

/** Returns the value (JSON) to store, or to show, in place of another. */
export type Redact = (value: unknown, about: StoredValue) => unknown;

const fieldsMax = 20;
const pathMaxLength = 500;
const textMaxLength = 200;
/** Of the JSON, before the codec encodes it. */
const bytesMax = 4_096;
const ellipsis = "…";

const optionNames = { fields: true } as const satisfies OptionNames<SummaryOptions>;

/** @throws {TypeError} for invalid fields, or too many. */
export function resolveSummary(name: string, option: SummaryOptions | boolean): SummarySettings {
  if (option === false) return null;
  if (option === true) return { fields: [] };
  checkOptions(`${name}: summary`, option, optionNames);
  const { fields = [] } = option;
  if (!Array.isArray(fields) || fields.length > fieldsMax) {
    throw new TypeError(`${name}: summary.fields must name at most ${fieldsMax} fields`);
  }
  return { fields: fields.length === 0 ? [] : checkFieldNames(fields) };
}

export interface SummaryParts {
  readonly method: string | null;
  readonly path: string | null;
  /** The body or the input. If it throws, the summary has no fields. */
  readonly value: () => unknown;
}

/** Built only when a new life begins. Undefined if the operation stores no summary. */
export function summaryOf(
  { settings: { summary } }: { readonly settings: { readonly summary: SummarySettings } },
  parts: () => SummaryParts,
): { readonly summarize?: () => RequestSummary } {
  if (summary === null) return {};
  return {
    summarize() {
      const { method, path, value } = parts();
      const fields = summary.fields.length === 0 ? {} : picked(value, summary.fields);
      return fitting({ method, path: path === null ? null : shortened(path, pathMaxLength), fields });
    },
  };
}

function picked(read: () => unknown, names: readonly string[]): Record<string, unknown> {
  let value: unknown;
  try {
    value = read();
  } catch {
    return {};
  }
  return Object.fromEntries(
    names.flatMap((name) => {
      const found = memberOf(value, name.split("."));
      return found === undefined ? [] : [[name, small(found)] as const];
    }),
  );
}

function memberOf(value: unknown, path: readonly string[]): unknown {
  let at: unknown = value;
  for (const name of path) {
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, name)) return undefined;
    at = Reflect.get(at, name);
  }
  return at;
}

function small(value: unknown): unknown {
  if (typeof value === "string") return shortened(value, textMaxLength);
  if (typeof value !== "object" || value === null) return value;
  return JSON.stringify(value).length <= textMaxLength ? value : ellipsis;
}

/** Does not cut in the middle of a character. */
function shortened(text: string, most: number): string {
  return text.length <= most
    ? text
    : `${text
        .slice(0, most)
        .toWellFormed()
        .replace(/\uFFFD$/u, "")}${ellipsis}`;
}

function fitting(summary: RequestSummary): RequestSummary {
  if (sizeOf(summary) <= bytesMax) return summary;
  const fields = Object.entries(summary.fields);
  for (let count = fields.length - 1; count > 0; count -= 1) {
    const less = { ...summary, fields: Object.fromEntries(fields.slice(0, count)), truncated: true } as const;
    if (sizeOf(less) <= bytesMax) return less;
  }
  return { ...summary, fields: {}, truncated: true };
}

function sizeOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}

/** The form to store, before the codec; null if redaction left nothing. Parts that redaction made too large are left out. */
export function summaryBytes(value: unknown): Uint8Array | null {
  const json: string | undefined = JSON.stringify(value);
  if (json === undefined || json === "null") return null;
  const bytes = Buffer.from(json);
  return bytes.byteLength <= bytesMax ? bytes : Buffer.from(JSON.stringify({ truncated: true }));
}
