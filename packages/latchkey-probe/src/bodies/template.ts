/**
 * Bodies may have placeholders for values that are new for every intention: an order number, a unique e-mail address. A retry
 * sends the bytes of its first attempt.
 */
import { newUuid } from "../ports.ts";

const places = /\{\{(uuid|n)\}\}/gu;

/** Fills in `{{uuid}}` and `{{n}}`, a number that grows by one. */
export function fillIn(template: string, number: number): string {
  return template.replace(places, (_, name: string) => (name === "uuid" ? newUuid() : String(number)));
}
