/** What is probed, and the requests made from it. */
import { fillIn } from "./bodies/template.ts";
import type { WireRequest } from "./wire/send.ts";

export type HeaderLine = readonly [name: string, value: string];

export interface Target {
  /** `POST /orders`, for reports. */
  readonly name: string;
  readonly method: string;
  readonly url: URL;
  /** Sent with every request, in addition to the key's header and credentials. */
  readonly headers: readonly HeaderLine[];
  /** Templates, see `fillIn`. */
  readonly body: string;
  /** Null: none is known that the server would accept. */
  readonly otherBody: string | null;
  /** A request that the server answers with a 5xx. Null: none is known. */
  readonly failing: { readonly url: URL; readonly body: string } | null;
  readonly key: "required" | "optional" | "any";
}

/** One thing that a client wants done. Its retries send the same bytes. */
export interface Intention {
  readonly method: string;
  readonly url: URL;
  readonly headers: readonly HeaderLine[];
  readonly body: Buffer;
}

export function intend(target: Target, template: string, number: number): Intention {
  const { method, url, headers } = target;
  return { method, url, headers, body: Buffer.from(fillIn(template, number)) };
}

/** The request for an intention: `keyLines` are the values of the key's header, one per field line. */
export function requestOf(
  intention: Intention,
  keyHeader: string,
  keyLines: readonly string[],
  credentials: readonly HeaderLine[],
): WireRequest {
  const own = new Set(credentials.map(([name]) => name.toLowerCase()));
  const shared = intention.headers.filter(([name]) => !own.has(name.toLowerCase()));
  const keys = keyLines.map((value): HeaderLine => [keyHeader, value]);
  return { ...intention, headers: [...shared, ...credentials, ...keys] };
}
