/**
 * Nothing that reads a request's key or body may take time out of proportion to its size: each input is measured at
 * two sizes, and the larger may cost only a little more than its share. If it costs much more, the next size decides.
 */
import { describe, expect, it } from "vitest";
import { canonicalJson } from "../packages/latchkey/src/fingerprint/canonical-json.ts";
import { parseMediaType } from "../packages/latchkey/src/fingerprint/media-type.ts";
import { sortedQuery } from "../packages/latchkey/src/fingerprint/query.ts";
import { looksPersonal } from "../packages/latchkey/src/key/looks-personal.ts";
import { parseKey } from "../packages/latchkey/src/key/parse-key.ts";
import { parseItem } from "../packages/latchkey/src/key/structured-field.ts";

const GROWTH = 8;
/** Linear work costs 8 times as much, n log n about 10 times, quadratic work 64 times. */
const MAX_RATIO = 32;
const SMALL = 12_500;
/** Linear work is measured many times within this; quadratic work is not worth repeating. */
const ENOUGH_MS = 10_000;

/** Of this thread alone: what other processes do meanwhile does not count. */
function elapsedMs(work: () => unknown): number {
  const before = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}

/** Below this the thread's clock, which some kernels count in ticks, says nothing. */
const MEASURABLE_MS = 30;

/** How often the small input has to be read until that can be measured; a multiple of GROWTH. */
function timesOf(read: () => unknown): number {
  for (let times = GROWTH; ; times *= 2) {
    if (elapsedMs(() => repeat(times, read)) >= MEASURABLE_MS) return times;
  }
}

function repeat(times: number, work: () => unknown): void {
  for (let time = 0; time < times; time++) work();
}

/**
 * How much longer the larger input takes than the smaller one. At one size, memory can cost more than its share: the heap
 * grows, and some kernels charge much for new pages. It does not at each size, as quadratic work does.
 */
function growth<Input>(make: (size: number) => Input, read: (input: Input) => unknown): number {
  const first = growthFrom(SMALL, make, read);
  return first > MAX_RATIO ? Math.min(first, growthFrom(SMALL * GROWTH, make, read)) : first;
}

/**
 * Other work on the machine makes a run slower and never faster, so the best times count, and a good ratio ends the
 * measurement.
 */
function growthFrom<Input>(
  size: number,
  make: (size: number) => Input,
  read: (input: Input) => unknown,
): number {
  const small = make(size);
  const large = make(size * GROWTH);
  const times = timesOf(() => read(small));
  const best = { small: Number.POSITIVE_INFINITY, large: Number.POSITIVE_INFINITY };
  let ratio = Number.POSITIVE_INFINITY;
  const start = performance.now();
  for (let run = 0; run < 8 && ratio > MAX_RATIO; run++) {
    const smallMs = elapsedMs(() => repeat(times, () => read(small)));
    const largeMs = elapsedMs(() => repeat(times / GROWTH, () => read(large)));
    best.small = Math.min(best.small, smallMs / times);
    best.large = Math.min(best.large, largeMs / (times / GROWTH));
    ratio = best.large / best.small;
    if (performance.now() - start > ENOUGH_MS) break;
  }
  return ratio;
}

const encoder = new TextEncoder();
const LIMITS = { maxBytes: 100_000_000, maxDepth: 1_000_000 };

const numbered = (size: number, write: (index: number) => string) =>
  Array.from({ length: size }, (_, i) => write(i));

it("finds work that grows out of proportion", () => {
  const measured = growth(
    (size) => size ** 3 / 1e9,
    (steps) => repeat(steps, () => {}),
  );
  expect(measured).toBeGreaterThan(MAX_RATIO);
});

describe("canonical JSON", () => {
  it.each<[string, (size: number) => string]>([
    ["names in one object", (size) => `{${numbered(size, (i) => `"n${(i * 7919) % size}x${i}":1`).join()}}`],
    [
      "names in reverse",
      (size) => `{${numbered(size, (i) => `"${String(size - i).padStart(7, "0")}":1`).join()}}`,
    ],
    ["names that look like array indexes", (size) => `{${numbered(size, (i) => `"${i * 8192}":1`).join()}}`],
    ["escaped names", (size) => `{${numbered(size, (i) => `"\\u0061${i}":1`).join()}}`],
    ["digits of one number", (size) => `1${"3".repeat(size)}`],
    [
      "zeros before and after the digits of one number",
      (size) => `0.${"0".repeat(size)}1${"0".repeat(size)}`,
    ],
    ["digits of one exponent", (size) => `1e${"9".repeat(size)}`],
    ["escapes in one string", (size) => `"${"\\n\\u0041".repeat(size)}"`],
    ["backslashes in one string", (size) => `"${"\\\\".repeat(size)}"`],
    ["escaped strings", (size) => `[${numbered(size, () => '"\\n"').join()}]`],
    ["a string that never ends", (size) => `["${"a".repeat(size)}`],
    ["nested arrays", (size) => "[".repeat(size) + "]".repeat(size)],
    ["nested objects", (size) => `${'{"a":'.repeat(size)}1${"}".repeat(size)}`],
    ["opening brackets", (size) => "[".repeat(size)],
    ["white space", (size) => `[${" \n".repeat(size)}1]`],
    ["repeated names", (size) => `{${numbered(size, () => '"a":1').join()}}`],
  ])("%s", (_name, make) => {
    const measured = growth(
      (size) => encoder.encode(make(size)),
      (bytes) => canonicalJson(bytes, LIMITS),
    );
    expect(measured).toBeLessThan(MAX_RATIO);
  });
});

describe("keys, near misses of a megabyte and less", () => {
  it.each<[string, (size: number) => string]>([
    ["a String that never ends", (size) => `"${"a".repeat(size * 10)}`],
    ["escapes", (size) => `"${'\\"'.repeat(size * 5)}\\`],
    ["spaces", (size) => `${" ".repeat(size * 10)}"a" x`],
    ["spaces within", (size) => `"a"${" ".repeat(size * 10)}x`],
    ["parameters", (size) => `"a"${numbered(size, (i) => `;a${i}=1`).join("")};`],
    ["one parameter, repeated", (size) => `"a"${';a="b"'.repeat(size * 2)},`],
    ["Base64", (size) => `:${"A".repeat(size * 10)}`],
    ["a display string", (size) => `%"${"%c3%bc".repeat(size)}`],
    ["digits", (size) => "1".repeat(size * 10)],
    ["commas", (size) => ",".repeat(size * 10)],
    ["e-mail addresses, nearly", (size) => "a@b.".repeat(size * 2)],
    ["phone numbers, nearly", (size) => "+1-2 3(".repeat(size * 2)],
  ])("%s", (_name, make) => {
    const measured = growth(make, (text) => [
      parseItem(text),
      parseKey([text]),
      parseKey([text], { joined: true, syntax: "strict" }),
      looksPersonal(text),
    ]);
    expect(measured).toBeLessThan(MAX_RATIO);
  });
});

describe("the rest of a fingerprint", () => {
  it.each<[string, (size: number) => string]>([
    ["pairs", (size) => numbered(size, (i) => `n${(i * 7919) % size}=1`).join("&")],
    ["escapes", (size) => "%41".repeat(size)],
    ["separators", (size) => "&".repeat(size)],
    ["parameters", (size) => `a/b${numbered(size, (i) => `;n${i}=1`).join("")}`],
    ["quoted pairs", (size) => `a/b;c="${"\\a".repeat(size)}`],
    ["white space", (size) => `a/b${" ;".repeat(size)}x`],
  ])("%s", (_name, make) => {
    let turn = 0;
    // The latest media type is remembered: never the same twice in a row.
    const next = (text: string) => (turn++ % 2 === 0 ? text : `${text} `);
    const measured = growth(make, (text) => [sortedQuery(text), parseMediaType(next(text))]);
    expect(measured).toBeLessThan(MAX_RATIO);
  });
});
