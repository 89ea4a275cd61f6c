import { isDigit, isLetter } from "../fingerprint/characters.ts";

/**
 * Which of the two a key looks as if it were, or contained: an e-mail address or a phone number; null if neither.
 *
 * A guess, in one pass over the key:
 * - e-mail: a character, `@` (or `%40`), a host name, a dot and at least two letters;
 * - phone: `+` (or `%2B`) and 8 to 15 digits, or digits grouped as in `415-555-2671` or `1 (415) 555-2671`;
 *   groups may be divided by space, hyphen, dot, slash or brackets.
 *
 * Plain digits are not taken for a phone number, because order numbers look the same. UUIDs never match.
 */
export function looksPersonal(key: string): "e-mail" | "phone" | null {
  const text = key.replaceAll("%40", "@").replaceAll("%2B", "+").replaceAll("%2b", "+");
  if (hasEmailAddress(text)) return "e-mail";
  return hasPhoneNumber(text) ? "phone" : null;
}

function hasEmailAddress(text: string): boolean {
  for (let at = text.indexOf("@"); at !== -1; at = text.indexOf("@", at + 1)) {
    if (at > 0 && isLocalPartEnd(text.charCodeAt(at - 1)) && startsWithDomain(text, at + 1)) return true;
  }
  return false;
}

/** Dots are left out: no local part ends with one. */
function isLocalPartEnd(code: number): boolean {
  return isLetter(code) || isDigit(code) || code === 0x2b || code === 0x2d || code === 0x5f || code > 0x7e;
}

function startsWithDomain(text: string, start: number): boolean {
  if (!isHostCharacter(text.charCodeAt(start))) return false;
  for (let index = start + 1; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code === 0x2e && isLetter(text.charCodeAt(index + 1)) && isLetter(text.charCodeAt(index + 2)))
      return true;
    if (code !== 0x2e && !isHostCharacter(code)) return false;
  }
  return false;
}

function isHostCharacter(code: number): boolean {
  return isLetter(code) || isDigit(code) || code === 0x2d;
}

function hasPhoneNumber(text: string): boolean {
  let index = 0;
  while (index < text.length) {
    const end = endOfPhoneRun(text, index);
    if (end === index) {
      index++;
      continue;
    }
    const before = text.charCodeAt(index - 1);
    const after = text.charCodeAt(end);
    const apart = !isLetter(before) || !isDigit(text.charCodeAt(index));
    if (apart && !isLetter(after) && isPhoneRun(text, index, end)) return true;
    index = end;
  }
  return false;
}

/** A run is an optional plus sign, then digits and separators. */
function endOfPhoneRun(text: string, start: number): number {
  let end = text.charCodeAt(start) === 0x2b ? start + 1 : start;
  while (isDigit(text.charCodeAt(end)) || isPhoneSeparator(text.charCodeAt(end))) end++;
  return end;
}

function isPhoneSeparator(code: number): boolean {
  return code === 0x20 || (code >= 0x28 && code <= 0x29) || (code >= 0x2d && code <= 0x2f);
}

const MIN_PHONE_DIGITS = 8;
/** The longest number of ITU-T E.164. */
const MAX_PHONE_DIGITS = 15;

function isPhoneRun(text: string, start: number, end: number): boolean {
  const groups = digitGroups(text, start, end);
  const international = text.charCodeAt(start) === 0x2b && !isLetterOrDigit(text.charCodeAt(start - 1));
  const digits = groups.reduce((sum, length) => sum + length, 0);
  if (international && digits >= MIN_PHONE_DIGITS && digits <= MAX_PHONE_DIGITS) return true;
  const shape = groups.join("-");
  return shape === "3-3-4" || shape === "1-3-3-4";
}

function isLetterOrDigit(code: number): boolean {
  return isLetter(code) || isDigit(code);
}

function digitGroups(text: string, start: number, end: number): number[] {
  const groups: number[] = [];
  let length = 0;
  for (let index = start; index <= end; index++) {
    if (index < end && isDigit(text.charCodeAt(index))) {
      length++;
    } else if (length > 0) {
      groups.push(length);
      length = 0;
    }
  }
  return groups;
}
