/**
 * The age of a request, by its own header. A retry after its key was forgotten would run as new; with the time of its first
 * attempt it can be refused instead.
 */
import { checkOptions, type OptionNames } from "../../known-options.ts";
import { parseHttpDate } from "./http-date.ts";
import type { HeaderLines } from "./incoming.ts";

export interface RequestAge {
  /**
   * Header with the time of the first attempt as an HTTP date, only in the form IMF-fixdate:
   * `Sun, 06 Nov 1994 08:49:37 GMT`. Default `Repeatability-First-Sent`.
   */
  readonly header?: string;
  /** Maximum age of a request, in milliseconds. Together with `toleranceMs` at most the operation's `forgetAfterMs`. */
  readonly maxMs: number;
  /**
   * Maximum difference between the clocks of clients, of this process and of the store. A request from further in the future
   * gets 400. Default 5 minutes.
   */
  readonly toleranceMs?: number;
  /** Whether a request with a key but without the header gets 400. False: it runs without an age limit. Default false. */
  readonly required?: boolean;
}

export type AgeRules = Required<RequestAge>;

/** Null: the request may continue. */
export type AgeVerdict = null | "request-too-old" | "invalid-request-date";

const ageNames = {
  header: true,
  maxMs: true,
  toleranceMs: true,
  required: true,
} as const satisfies OptionNames<RequestAge>;

const toleranceDefaultMs = 5 * 60 * 1000;

/** @throws {TypeError} when a duration is out of range. The caller checks the header's name. */
export function resolveRequestAge(option: RequestAge): AgeRules {
  checkOptions("requestAge", option, ageNames);
  const { header = "Repeatability-First-Sent", maxMs, toleranceMs = toleranceDefaultMs } = option;
  if (!Number.isSafeInteger(maxMs) || maxMs <= 0) {
    throw new TypeError(`requestAge.maxMs must be a positive whole number (got ${maxMs})`);
  }
  if (!Number.isSafeInteger(toleranceMs) || toleranceMs < 0) {
    throw new TypeError(`requestAge.toleranceMs must be a whole number, 0 or more (got ${toleranceMs})`);
  }
  return { header, maxMs, toleranceMs, required: option.required ?? false };
}

/**
 * A request that is `maxMs` old by its client's clock, which may be ahead by `toleranceMs`, must still find its record.
 *
 * @throws {TypeError} when the key may be forgotten earlier.
 */
export function checkAgainstMemory(age: AgeRules, operation: string, forgetAfterMs: number): void {
  const { maxMs, toleranceMs } = age;
  if (maxMs + toleranceMs <= forgetAfterMs) return;
  throw new TypeError(
    `Operation ${operation} forgets keys after ${forgetAfterMs} ms, before requestAge refuses their requests: ` +
      `maxMs (${maxMs}) plus toleranceMs (${toleranceMs}) must not exceed that`,
  );
}

/** Checks the lines of the header at `nowMs`, milliseconds since the Unix epoch. */
export function judgeAge(age: AgeRules, { lines }: HeaderLines, nowMs: number): AgeVerdict {
  const [line] = lines;
  if (line === undefined) return age.required ? "invalid-request-date" : null;
  const sentMs = lines.length === 1 ? parseHttpDate(line) : null;
  if (sentMs === null || sentMs - nowMs > age.toleranceMs) return "invalid-request-date";
  return nowMs - sentMs > age.maxMs ? "request-too-old" : null;
}
