/**
 * The other side as a value: it keeps its own ledger, honours keys where it says so, refuses what was closed, and cannot be
 * talked into anything. What it sees is judged here: one key, one input; one place, one charge.
 */
import { EffectRefused, NotExecuted } from "../../../packages/latchkey/src/errors.ts";
import { textOf } from "./text.ts";

/** What the other side can do, as in the table of effects. */
export type EffectKind = "provider" | "close" | "reopen" | "lookup" | "none";

/** What every send carries. `by` differs between attempts, so that a send under another input is seen. */
export interface SendInput {
  readonly life: string;
  readonly place: string;
  readonly by: string;
}

interface Charge {
  readonly key: string;
  readonly place: string;
  readonly isMail: boolean;
  readonly id: number;
}

interface Sent {
  readonly key: string;
  readonly input: SendInput;
}

/** What a route's handler did on the other side, without steps. */
interface DirectCharge {
  readonly life: string;
  readonly attempt: number;
  readonly by: string;
}

export interface OtherSide {
  /** Calls before mails, each in their order. */
  readonly charges: readonly Charge[];
  readonly closed: readonly string[];
  /** By key; calls before mails, each in the order in which they first came. */
  readonly inputs: readonly Sent[];
  readonly direct: readonly DirectCharge[];
  /** Attempts of lives up to which no direct charge is taken any more. */
  readonly closedThrough: readonly { readonly life: string; readonly attempt: number }[];
}

export const untouched: OtherSide = { charges: [], closed: [], inputs: [], direct: [], closedThrough: [] };

export interface Replied {
  readonly other: OtherSide;
  readonly value: unknown;
  readonly threw: boolean;
  readonly violation: string | null;
  readonly reached: readonly string[];
}

const quiet = { threw: false, violation: null, reached: [] } as const;

export function reply(other: OtherSide, port: string, args: readonly unknown[]): Replied {
  switch (port) {
    case "send":
      return sent(other, args[0] as EffectKind, args[1] as string, args[2] as SendInput);
    case "lookUp": {
      const found = find(other, args[0] as string);
      return { ...quiet, other, value: found === null ? null : { found: { id: found.id } } };
    }
    case "close":
      return closed(other, args[0] as string);
    case "charge":
      return charged(other, args[0] as DirectCharge, args[1] as boolean);
    case "lookUpOperation":
      return lookedUp(other, args[0] as { readonly life: string; readonly attempt: number });
    default:
      throw new TypeError(`The other side has no ${port}`);
  }
}

export function find(other: OtherSide, key: string): Charge | null {
  return other.charges.find((charge) => charge.key === key) ?? null;
}

function sent(before: OtherSide, kind: EffectKind, key: string, input: SendInput): Replied {
  const place = `${input.life} ${input.place}`;
  const known = before.inputs.find((one) => one.key === key);
  const violation =
    known !== undefined && textOf(known.input) !== textOf(input)
      ? `I7: the key of ${place} is sent with ${textOf(input)} after ${textOf(known.input)}`
      : before.closed.includes(key)
        ? null
        : newKeyOf(before, key, place);
  const other = known === undefined ? { ...before, inputs: withSent(before.inputs, { key, input }) } : before;
  if (other.closed.includes(key)) {
    const value = new EffectRefused({ message: "closed", detail: { closed: true } });
    return { other, value, threw: true, violation, reached: ["a send refused as closed"] };
  }
  const there = find(other, key);
  if (kind === "provider" && there !== null) {
    const reached = ["the provider de-duplicated a send"];
    return { other, value: { id: there.id }, threw: false, violation, reached };
  }
  const isMail = isMailed(input);
  const [calls, mails] = [
    other.charges.filter((one) => !one.isMail),
    other.charges.filter((one) => one.isMail),
  ];
  // Neither tells anything of the other.
  const id = (isMail ? mails : calls).length + 1;
  const charge = { key, place, isMail, id };
  const charges = isMail ? [...calls, ...mails, charge] : [...calls, charge, ...mails];
  const twice = other.charges.some((charge) => charge.place === place);
  return {
    other: { ...other, charges },
    value: { id },
    threw: false,
    violation: violation ?? (twice ? `I7: ${place} was charged twice (${kind})` : null),
    reached: [],
  };
}

function isMailed({ place }: SendInput): boolean {
  return place.startsWith("mail");
}

function withSent(inputs: readonly Sent[], sent: Sent): readonly Sent[] {
  const mails = inputs.filter(({ input }) => isMailed(input));
  const calls = inputs.filter(({ input }) => !isMailed(input));
  return isMailed(sent.input) ? [...calls, ...mails, sent] : [...calls, sent, ...mails];
}

/** A place gets a new key only when what was sent under the one before can no longer happen. */
function newKeyOf(other: OtherSide, key: string, place: string): string | null {
  for (const { key: earlier, input } of other.inputs) {
    if (earlier === key || `${input.life} ${input.place}` !== place) continue;
    if (other.closed.includes(earlier)) continue;
    return `I7: ${place} is sent under a new key while its key before is not closed`;
  }
  return null;
}

/** Atomic: from here on it is refused, or it has happened. */
function closed(other: OtherSide, key: string): Replied {
  const there = find(other, key);
  if (there !== null) return { ...quiet, other, value: { happened: { id: there.id } } };
  const next = other.closed.includes(key) ? other : { ...other, closed: [...other.closed, key].sort() };
  return { ...quiet, other: next, value: { closed: true }, reached: ["a call was closed"] };
}

function charged(other: OtherSide, charge: DirectCharge, mayRepeat: boolean): Replied {
  if (isClosedThrough(other, charge)) {
    const value = new NotExecuted({ message: "closed" });
    return { ...quiet, other, value, threw: true, reached: ["a late charge refused as closed"] };
  }
  const direct = [...other.direct, charge];
  const violation =
    direct.length > 1 && !mayRepeat ? `I1: ${charge.life} took effect ${direct.length} times` : null;
  const reached = direct.length > 1 ? ["a handler ran again under rerun"] : [];
  return { other: { ...other, direct }, value: null, threw: false, violation, reached };
}

function lookedUp(other: OtherSide, asked: { readonly life: string; readonly attempt: number }): Replied {
  const there = other.direct.find(({ life }) => life === asked.life);
  if (there !== undefined) return { ...quiet, other, value: { by: there.by } };
  const closedThrough = isClosedThrough(other, asked) ? other.closedThrough : [...other.closedThrough, asked];
  return { ...quiet, other: { ...other, closedThrough }, value: null };
}

export function isClosedThrough(
  { closedThrough }: OtherSide,
  { life, attempt }: { readonly life: string; readonly attempt: number },
): boolean {
  return closedThrough.some((one) => one.life === life && one.attempt >= attempt);
}
