/** Reads, sets and restores the status and headers of a Node response. */
import type { HeaderEntry } from "../protocol/capture.ts";
import { OutgoingMessage, type ServerResponse } from "./node-http.ts";

export interface Head {
  readonly statusCode: number;
  readonly statusMessage: string;
  readonly sendDate: boolean;
  readonly headers: readonly (readonly [name: string, value: number | string | readonly string[]])[];
}

export function readHead(res: ServerResponse): Head {
  const headers = rawNames(res).map((name) => [name, res.getHeader(name) ?? ""] as const);
  const { statusCode, statusMessage, sendDate } = res;
  return { statusCode, statusMessage, sendDate, headers };
}

/**
 * Whether the object is a stand-in for a response, as in unit tests. A framework may have given it the prototype of its own
 * responses, whose methods fail because the properties that Node's constructor sets are missing.
 */
export function isSubstitute(res: object): boolean {
  return !("outputData" in res);
}

/** Header names as they were written. */
function rawNames(res: ServerResponse): readonly string[] {
  if (isSubstitute(res)) return res.getHeaderNames();
  // Exists since Node 15, but not in the types of ServerResponse.
  const { getRawHeaderNames = res.getHeaderNames } = res as ServerResponse & {
    getRawHeaderNames?(): string[];
  };
  return getRawHeaderNames.call(res);
}

/** Whether the response already has exactly these lines in this order, apart from names that `except` accepts (lower case). */
export function hasLines(
  res: ServerResponse,
  lines: readonly HeaderEntry[],
  except: (name: string) => boolean,
): boolean {
  let at = 0;
  for (const name of rawNames(res)) {
    if (except(name.toLowerCase())) continue;
    const value = res.getHeader(name);
    for (const each of Array.isArray(value) ? value : [value]) {
      const line = lines[at++];
      if (line === undefined || line[0] !== name || line[1] !== String(each)) return false;
    }
  }
  return at === lines.length;
}

/** Restores an earlier head of a response, unless its head has been sent. */
export function restoreHead(res: ServerResponse, head: Head): void {
  if (res.headersSent) return;
  // Not the response's own methods, which may be buffered, or wrapped by middleware that counts calls.
  const { removeHeader, setHeader } = isSubstitute(res) ? res : OutgoingMessage.prototype;
  for (const name of res.getHeaderNames()) removeHeader.call(res, name);
  for (const [name, value] of head.headers) setHeader.call(res, name, value);
  restoreStatus(res, head);
}

/** Restores an earlier head without its headers. */
export function restoreStatus(res: ServerResponse, { statusCode, statusMessage, sendDate }: Head): void {
  if (res.headersSent) return;
  res.statusCode = statusCode;
  // Compared first, because setting it would add a property to a response that never had one.
  if (res.statusMessage !== statusMessage) res.statusMessage = statusMessage;
  // Removing a Date header turns off Node's own.
  res.sendDate = sendDate;
}

/** Turns fields into field lines, one for each value. */
export function linesOf(fields: readonly (readonly [name: string, value: unknown])[]): HeaderEntry[] {
  // `flatMap` takes several times as long.
  const lines: HeaderEntry[] = [];
  for (const [name, value] of fields) {
    if (Array.isArray(value)) for (const each of value) lines.push([name, String(each)]);
    else lines.push([name, String(value)]);
  }
  return lines;
}

/** Sets what `writeHead(status, reason?, headers?)` sets; headers are an object, a flat list or a list of pairs. */
export function setHead(res: ServerResponse, status: number, rest: readonly unknown[]): void {
  const [reason, given] = typeof rest[0] === "string" ? [rest[0], rest[1]] : [undefined, rest[0] ?? rest[1]];
  res.statusCode = status;
  if (reason !== undefined) res.statusMessage = reason;
  if (given !== undefined && given !== null)
    setFields(linesOf(pairsOf(given)), (name, value) => res.setHeader(name, value));
}

/** Sets each field once: lines with the same name together, at the place of the first. */
export function setFields(
  lines: readonly HeaderEntry[],
  set: (name: string, value: string | string[]) => void,
): void {
  if (!hasRepeats(lines)) {
    for (const [name, value] of lines) set(name, value);
    return;
  }
  for (const [name, values] of groupLines(lines)) set(name, values.length === 1 ? (values[0] ?? "") : values);
}

/** Above this number, lines are grouped without looking for repeats first. */
const comparedLinesMax = 16;

function hasRepeats(lines: readonly HeaderEntry[]): boolean {
  if (lines.length > comparedLinesMax) return true;
  for (let later = 1; later < lines.length; later++) {
    const name = lines[later]?.[0] ?? "";
    for (let earlier = 0; earlier < later; earlier++) {
      const other = lines[earlier]?.[0] ?? "";
      if (other.length === name.length && other.toLowerCase() === name.toLowerCase()) return true;
    }
  }
  return false;
}

function groupLines(lines: Iterable<HeaderEntry>): Iterable<readonly [name: string, values: string[]]> {
  const groups = new Map<string, readonly [name: string, values: string[]]>();
  for (const [name, value] of lines) {
    const group = groups.get(name.toLowerCase());
    if (group === undefined) groups.set(name.toLowerCase(), [name, [value]]);
    else group[1].push(value);
  }
  return groups.values();
}

function pairsOf(given: object): readonly (readonly [name: string, value: unknown])[] {
  if (!Array.isArray(given)) return Object.entries(given).filter(([, value]) => value !== undefined);
  if (given.every(Array.isArray)) return given.map(([name, value]: unknown[]) => [String(name), value]);
  const pairs: [string, unknown][] = [];
  for (let index = 0; index + 1 < given.length; index += 2)
    pairs.push([String(given[index]), given[index + 1]]);
  return pairs;
}
