/**
 * How old a request says it is. A retry that comes after its key was forgotten would run as new; one that carries the
 * time of its first attempt can be refused instead.
 */
import { checkOptions, type OptionNames } from "../../known-options.ts";
import { parseHttpDate } from "./http-date.ts";
import type { HeaderLines } from "./incoming.ts";

export interface RequestAge {
  /**
   * Header with the time of the first attempt as an HTTP date, in the form IMF-fixdate alone:
   * `Sun, 06 Nov 1994 08:49:37 GMT`. Default `Repeatability-First-Sent`.
   */
  readonly header?: string;
  /** The oldest request that is accepted, in milliseconds. With `toleranceMs` at most the operation's `forgetAfterMs`. */
  readonly maxMs: number;
  /**
   * How far the clocks of clients, of this process and of the store may lie apart. A request from further in the future is
   * refused with 400. Default 5 minutes.
   */
  readonly toleranceMs?: number;
  /** What a request with a key and without the header gets: false, no limit; true, 400. Default false. */
  readonly required?: boolean;
}

export type AgeRules = Required<RequestAge>;

/** Null: the request may go on. */
export type AgeVerdict = null | "request-too-old" | "invalid-request-date";

const ageNames = {
  header: true,
  maxMs: true,
  toleranceMs: true,
  required: true,
} as const satisfies OptionNames<RequestAge>;

const toleranceDefaultMs = 5 * 60 * 1000;

/** @throws {TypeError} when a duration is out of range. The header's name is the caller's to check. */
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
 * A request as old as `maxMs` by its own clock, which may be ahead by `toleranceMs`, must still meet its record.
 *
 * @throws {TypeError} when the key may be forgotten before.
 */
export function checkAgainstMemory(age: AgeRules, operation: string, forgetAfterMs: number): void {
  const { maxMs, toleranceMs } = age;
  if (maxMs + toleranceMs <= forgetAfterMs) return;
  throw new TypeError(
    `Operation ${operation} forgets keys after ${forgetAfterMs} ms, before requestAge refuses their requests: ` +
      `maxMs (${maxMs}) and toleranceMs (${toleranceMs}) together must not be longer`,
  );
}

/** Judges the lines of the header at `nowMs`, milliseconds since the Unix epoch. */
export function judgeAge(age: AgeRules, { lines }: HeaderLines, nowMs: number): AgeVerdict {
  const [line] = lines;
  if (line === undefined) return age.required ? "invalid-request-date" : null;
  const sentMs = lines.length === 1 ? parseHttpDate(line) : null;
  if (sentMs === null || sentMs - nowMs > age.toleranceMs) return "invalid-request-date";
  return nowMs - sentMs > age.maxMs ? "request-too-old" : null;
}
