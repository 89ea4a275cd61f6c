/** Times as text: in ISO 8601, with their distance from the store's present. */

export function isoTime(epochMs: number): string {
  return new Date(epochMs).toISOString();
}

export function optionalIsoTime(epochMs: number | null): string | null {
  return epochMs === null ? null : isoTime(epochMs);
}

/** The time and its distance from the store's present. */
export function timeText(epochMs: number, now: number): string {
  const distance = durationText(Math.abs(now - epochMs));
  return `${isoTime(epochMs)} (${epochMs <= now ? `${distance} ago` : `in ${distance}`})`;
}

const units = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
  ["second", 1_000],
] as const;

function durationText(ms: number): string {
  for (const [unit, length] of units) {
    const count = Math.floor(ms / length);
    if (count > 0) return `${count} ${unit}${count === 1 ? "" : "s"}`;
  }
  return `${Math.round(ms)} ms`;
}
