/** Dates in HTTP headers, only in the form IMF-fixdate (RFC 9110): `Sun, 06 Nov 1994 08:49:37 GMT`. */

const length = 29;

/** Formats `epochMs`, rounded down to a whole second, for years 0 to 9999. */
export function formatHttpDate(epochMs: number): string {
  return new Date(epochMs).toUTCString();
}

/** Milliseconds since the Unix epoch; null for a text that `formatHttpDate` would write differently. */
export function parseHttpDate(text: string): number | null {
  if (text.length !== length) return null;
  // Date.parse accepts many other forms, even wrong weekdays and days past a month's end.
  const epochMs = Date.parse(text);
  return !Number.isNaN(epochMs) && formatHttpDate(epochMs) === text ? epochMs : null;
}
