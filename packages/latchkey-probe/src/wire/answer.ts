/** An answer as it was on the wire. */
export interface Answer {
  readonly status: number;
  /** Field lines in order, names in lower case. */
  readonly lines: readonly (readonly [name: string, value: string])[];
  /** As sent: nothing is decompressed. */
  readonly body: Buffer;
  /** When the request had been sent, and when the answer's head arrived: `Timing.now`. */
  readonly sentAt: number;
  readonly answeredAt: number;
}

/** There was no answer: the connection was refused or ended, or the answer took too long or was too large. */
export class NoAnswer extends Error {
  override readonly name = "NoAnswer";
}

/** The lines of a header, joined with a comma; null if there are none. */
export function headerOf({ lines }: Pick<Answer, "lines">, name: string): string | null {
  const values = lines.filter(([each]) => each === name).map(([, value]) => value);
  return values.length === 0 ? null : values.join(", ");
}

export function isAccepted({ status }: Pick<Answer, "status">): boolean {
  return status >= 200 && status < 300;
}

/** The body as JSON; undefined if it is not JSON. */
export function jsonOf({ body }: Pick<Answer, "body">): unknown {
  try {
    return JSON.parse(body.toString("utf8"));
  } catch {
    return undefined;
  }
}

/** The pause that `Retry-After` asks for, in milliseconds; null if there is none, or it cannot be parsed. */
export function retryAfterMs(answer: Pick<Answer, "lines">, today: number): number | null {
  const value = headerOf(answer, "retry-after");
  if (value === null) return null;
  if (/^[0-9]{1,9}$/u.test(value)) return Number(value) * 1_000;
  const date = Date.parse(value);
  return Number.isNaN(date) ? null : Math.max(0, date - today);
}
