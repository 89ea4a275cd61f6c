/** Numbers, ages and times as the page shows them: at most two units, UTC, digits in groups of three. */

const units = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1_000],
] as const;

/** Such as "3 d 4 h", "40 min 28 s", "under 1 s". */
export function ageText(ms: number): string {
  if (ms < 1_000) return "under 1 s";
  const first = units.findIndex(([, length]) => ms >= length);
  let left = ms;
  const parts = units.slice(first, first + 2).flatMap(([unit, length]) => {
    const count = Math.floor(left / length);
    left -= count * length;
    return count === 0 ? [] : [`${count} ${unit}`];
  });
  return parts.join(" ");
}

export function countText(count: number, more = false): string {
  return more ? `over ${count.toLocaleString("en")}` : count.toLocaleString("en");
}

export function clockText(iso: string): string {
  return iso.slice(11, 19);
}

export function exactTime(iso: string): string {
  return iso.slice(11, 23);
}

/** Includes the day if it is not the day of `now`. */
export function timeText(iso: string, now: string): string {
  return iso.slice(0, 10) === now.slice(0, 10)
    ? `${clockText(iso)}`
    : `${iso.slice(0, 10)} ${iso.slice(11, 16)}`;
}

export function shortKey(text: string): string {
  return text.length <= 24 ? text : `${text.slice(0, 18)}…${text.slice(-5)}`;
}

export function msText(ms: number | null): string {
  if (ms === null) return "–";
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  return ms < 10_000 ? `${(ms / 1_000).toFixed(1)} s` : `${Math.round(ms / 1_000)} s`;
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${countText(count)} ${count === 1 ? one : many}`;
}
