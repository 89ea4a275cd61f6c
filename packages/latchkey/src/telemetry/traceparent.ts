/** W3C Trace Context as text: `00-`, the trace's id, the span's id, flags. Both parsing and formatting validate it. */

export interface TraceContext {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** 16 hexadecimal digits. */
  readonly spanId: string;
  readonly traceFlags: number;
}

const form = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})$/;
const length = 55;
const sampled = 1;

/** Null: not a traceparent of version 00, the only version that Latchkey writes. */
export function parseTraceparent(text: unknown): TraceContext | null {
  if (typeof text !== "string" || text.length !== length) return null;
  const [, traceId, spanId, flags] = form.exec(text) ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return null;
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) };
}

/** Null: the context is invalid or not sampled, so a link to it would lead nowhere. */
export function formatTraceparent({ traceId, spanId, traceFlags }: TraceContext): string | null {
  if (!Number.isInteger(traceFlags) || (traceFlags & sampled) === 0) return null;
  const text = `00-${traceId}-${spanId}-01`;
  return parseTraceparent(text) === null ? null : text;
}
