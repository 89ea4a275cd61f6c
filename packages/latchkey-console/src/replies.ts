/** Answers, with headers that restrict what a browser does with them. */
import type { Problem } from "./wire.ts";

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "font-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
].join("; ");

const guarded = {
  "Content-Security-Policy": policy,
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
  "Referrer-Policy": "no-referrer",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
} as const;

export function reply(
  status: number,
  type: string,
  body: string | Uint8Array<ArrayBuffer> | null,
  headers: Readonly<Record<string, string>> = {},
): Response {
  const all = { "Cache-Control": "no-store", ...guarded, "Content-Type": type, ...headers };
  return new Response(body, { status, headers: all });
}

export function json(
  status: number,
  value: unknown,
  headers: Readonly<Record<string, string>> = {},
): Response {
  return reply(status, "application/json; charset=utf-8", JSON.stringify(value), headers);
}

/** A refusal, whose sentences the page shows. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly status: number;
  readonly problem: Problem;

  constructor(status: number, title: string, detail: string, options: ErrorOptions = {}) {
    super(title, options);
    this.status = status;
    this.problem = { title, detail };
  }
}

export function badRequest(detail: string): Refusal {
  return new Refusal(400, "Nothing was done. The request was not understood.", detail);
}
