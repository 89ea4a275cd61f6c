/**
 * Bodies may have places for values that are new with every intention: an order's number, an e-mail address that must be
 * unique. A retry sends the bytes of its first attempt.
 */
import { newUuid } from "../ports.ts";

const places = /\{\{(uuid|n)\}\}/gu;

/** Fills in `{{uuid}}` and `{{n}}`, a number that grows by one. */
export function fillIn(template: string, number: number): string {
  return template.replace(places, (_, name: string) => (name === "uuid" ? newUuid() : String(number)));
}
