/** The ends of a claim on an effect, as they are written and reported. */
import { aboutDelivery, type Delivery, type DeliveryResult, type End, written } from "./delivery.ts";
import { type DeliveryState, type DeliveryVerdict, retryAfterMs, unsentTries } from "./next-delivery.ts";

/** A verdict, with the error that led to it. */
export type FailedVerdict = DeliveryVerdict & { readonly error?: unknown };

/** A claim that is not held any more is rescued, or was, whatever this end says. */
export async function end<Tx>(
  delivery: Delivery<Tx>,
  how: End,
  result: DeliveryResult,
): Promise<DeliveryResult> {
  return (await written(delivery, how)) ? result : left(delivery);
}

export function left<Tx>(delivery: Delivery<Tx>, error: unknown = null): DeliveryResult {
  delivery.all.runtime.emit({ ...aboutDelivery(delivery), type: "effect_left", error });
  return "lost";
}

/** @param returned whether a send came back under this claim */
export async function fail<Tx>(
  delivery: Delivery<Tx>,
  state: DeliveryState,
  verdict: Extract<FailedVerdict, { readonly kind: "retry" | "die" }>,
  returned: boolean,
): Promise<DeliveryResult> {
  const { errorCode, error = null } = verdict;
  const { sends } = state;
  delivery.span?.fail(errorCode);
  if (verdict.kind === "die") {
    const result = await end(delivery, { event: "die", errorCode, returned }, "dead");
    const what = { ...aboutDelivery(delivery), sends, errorCode, error };
    if (result === "dead") delivery.all.runtime.emit({ ...what, type: "effect_dead" });
    return result;
  }
  const afterMs = retriedAfter(delivery, returned ? sends : unsentTries(state));
  const { doubtful } = verdict;
  const result = await end(delivery, { event: "retry", errorCode, afterMs, doubtful, returned }, "retried");
  return result === "retried" ? retried(delivery, state, { errorCode, error, afterMs }) : result;
}

export function retriedAfter<Tx>({ all, effect }: Delivery<Tx>, tries: number): number {
  return retryAfterMs(effect.settings, tries, all.runtime.ports.random.fraction());
}

export function retried<Tx>(
  delivery: Delivery<Tx>,
  { sends }: DeliveryState,
  what: { readonly errorCode: string; readonly error: unknown; readonly afterMs: number },
): DeliveryResult {
  delivery.all.runtime.emit({ ...aboutDelivery(delivery), type: "effect_retried", sends, ...what });
  return "retried";
}

export function delivered<Tx>(
  delivery: Delivery<Tx>,
  { sends }: DeliveryState,
  answered: boolean,
): DeliveryResult {
  const { all, row } = delivery;
  const { tenant, scope, key, operation, recordId, effect, id: effectId } = row;
  all.runtime.emit({
    type: "effect_delivered",
    operation,
    tenant,
    // The hash is a good part of what a delivery costs here, and few listeners look at it.
    get keyHash() {
      return all.runtime.about(operation, { tenant, scope, key }).keyHash;
    },
    recordId,
    effect,
    effectId,
    sends,
    answered,
  });
  return "delivered";
}
