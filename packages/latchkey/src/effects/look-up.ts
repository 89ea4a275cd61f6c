/** Asks the other service about the outcome of a send, with the effect's own functions. */
import type { Clock } from "../ports.ts";
import type { EffectCall } from "./effect.ts";
import { type Asking, runEffect } from "./run-effect.ts";

export type LookedUpSend =
  | { readonly kind: "happened"; readonly value: unknown }
  /** Proves nothing: the send may still be on its way, or come later from a frozen process. */
  | { readonly kind: "not_found" }
  /** It can no longer happen under this key. */
  | { readonly kind: "closed" };

/**
 * Looks a send up and, if it is not found, closes it if the effect can.
 *
 * @throws the errors of the effect's functions; {Error} when one takes longer than its limit; {TypeError} when `close` returns
 * neither form.
 */
export async function lookUpSend(clock: Clock, asking: Asking, input: unknown): Promise<LookedUpSend> {
  const { name, settings } = asking.effect;
  const ask = async <T>(act: (input: never, to: EffectCall) => Promise<T>): Promise<T> => {
    const asked = await runEffect(clock, asking, (to) => act(input as never, to));
    if (asked.kind === "returned") return asked.value;
    if (asked.kind === "threw") throw asked.error;
    throw new Error(`Effect ${name} took longer than its limit to look up or close a call`);
  };
  const known = settings.lookup === null ? null : await ask(settings.lookup);
  if (known !== null) return { kind: "happened", value: known.found };
  if (settings.close === null) return { kind: "not_found" };
  const closed = await ask(settings.close);
  if ("happened" in closed) return { kind: "happened", value: closed.happened };
  if (closed.closed === true) return { kind: "closed" };
  throw new TypeError(`Effect ${name}: close must return { closed } or { happened }`);
}
