/**
 * Decides whether a second answer repeats the first one, comes from another execution, or is an unfaithful replay. Only the
 * answers are visible, so requests under different keys first show what differs between two executions, such as an id.
 */
import { type Answer, headerOf, jsonOf } from "./wire/answer.ts";

/** Headers that belong to an answer, and therefore to its replay. */
const ownHeaders = [
  "content-type",
  "content-language",
  "content-disposition",
  "location",
  "content-location",
  "etag",
  "link",
];

/** Headers whose change may identify another result; the others identify none. */
const identifyingHeaders = ["location", "content-location", "etag"];

/** Places in an answer that differ between executions, such as `body /id` and `header location`. */
export type Marks = ReadonlySet<string>;

const wholeBody = "body";

/** The places that differ between every two of the answers. */
export function marksOf(answers: readonly Answer[]): Marks {
  const pairs = answers.flatMap((one, index) => answers.slice(index + 1).map((other) => changes(one, other)));
  const [first = new Set<string>(), ...rest] = pairs;
  return new Set([...first].filter((place) => rest.every((pair) => pair.has(place))));
}

/** Places that both answers have, with different values. */
function changes(one: Answer, other: Answer): Marks {
  const [left, right] = [placesOf(one), placesOf(other)];
  return new Set(
    [...left].filter(([place, value]) => isChanged(place, value, right.get(place))).map(([place]) => place),
  );
}

/** A text that was quoted or truncated does not come from another execution. */
function isChanged(place: string, before: string, after: string | undefined): boolean {
  if (after === undefined || after === before) return false;
  return place !== wholeBody || !(after.includes(before) || before.includes(after));
}

function placesOf(answer: Answer): ReadonlyMap<string, string> {
  const places = new Map<string, string>();
  for (const name of identifyingHeaders) {
    const value = headerOf(answer, name);
    if (value !== null) places.set(`header ${name}`, value);
  }
  const json = jsonOf(answer);
  if (isStructure(json)) addLeaves(places, wholeBody, json);
  else if (answer.body.length > 0) places.set(wholeBody, answer.body.toString("latin1"));
  return places;
}

function addLeaves(places: Map<string, string>, at: string, value: unknown): void {
  if (!isStructure(value)) {
    places.set(at, JSON.stringify(value));
    return;
  }
  for (const [name, member] of Object.entries(value)) addLeaves(places, `${at}/${name}`, member);
}

function isStructure(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

export type Comparison =
  | { readonly kind: "same" }
  /** The answer of another execution. */
  | { readonly kind: "other-run"; readonly places: readonly string[] }
  /** The first execution's answer, changed. */
  | { readonly kind: "unfaithful"; readonly differences: readonly Difference[] };

export interface Difference {
  readonly of: "status" | "body" | "headers";
  readonly text: string;
}

/** `marks` is empty if two executions cannot be distinguished: then nothing counts as another execution. */
export function compareAnswers(first: Answer, again: Answer, marks: Marks): Comparison {
  const changed = changes(first, again);
  if (marks.size > 0 && [...marks].every((place) => changed.has(place))) {
    return { kind: "other-run", places: [...marks] };
  }
  const differences = [
    ...statusDifference(first, again),
    ...bodyDifference(first, again),
    ...headerDifferences(first, again),
  ];
  return differences.length === 0 ? { kind: "same" } : { kind: "unfaithful", differences };
}

function statusDifference(first: Answer, again: Answer): Difference[] {
  if (first.status === again.status) return [];
  return [{ of: "status", text: `status ${first.status} became ${again.status}` }];
}

function bodyDifference(first: Answer, again: Answer): Difference[] {
  if (first.body.equals(again.body)) return [];
  const sizes = `${first.body.length} bytes became ${again.body.length}`;
  if (again.body.length === 0) return [{ of: "body", text: `the body is gone (${sizes})` }];
  const sameJson =
    canonical(jsonOf(first)) !== undefined && canonical(jsonOf(first)) === canonical(jsonOf(again));
  if (sameJson) return [{ of: "body", text: `the same JSON has other bytes (${sizes})` }];
  const places = [...changes(first, again)].filter((place) => place.startsWith(`${wholeBody}/`)).slice(0, 5);
  const where =
    places.length === 0 ? "" : `, at ${places.map((place) => place.slice(wholeBody.length)).join(", ")}`;
  return [{ of: "body", text: `the body is different (${sizes}${where})` }];
}

function canonical(value: unknown): string | undefined {
  if (value === undefined) return undefined;
  return JSON.stringify(value, (_, member: unknown) =>
    isStructure(member) && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1)))
      : member,
  );
}

function headerDifferences(first: Answer, again: Answer): Difference[] {
  return ownHeaders.flatMap((name): Difference[] => {
    const [before, after] = [headerOf(first, name), headerOf(again, name)];
    if (before === null || before === after) return [];
    const text =
      after === null ? `${name} is gone (it was "${before}")` : `${name} "${before}" became "${after}"`;
    return [{ of: "headers", text }];
  });
}
