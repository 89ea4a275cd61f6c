/** Dates as HTTP headers carry them: IMF-fixdate (RFC 9110), `Sun, 06 Nov 1994 08:49:37 GMT`, and no other form. */

const length = 29;

/** The whole second that `epochMs` is in, for years 0 to 9999. */
export function formatHttpDate(epochMs: number): string {
  return new Date(epochMs).toUTCString();
}

/** Milliseconds since the Unix epoch, or null for anything that `formatHttpDate` does not write in the same way. */
export function parseHttpDate(text: string): number | null {
  if (text.length !== length) return null;
  // Date.parse takes many other forms, wrong weekdays and days past a month's end among them.
  const epochMs = Date.parse(text);
  return !Number.isNaN(epochMs) && formatHttpDate(epochMs) === text ? epochMs : null;
}
