/**
 * Charging a card: the work leaves the database, so the operation owns it, in steps. If a process dies in the middle, the
 * next attempt continues after the last stored step.
 */
import { type Effect, EffectRefused, NotExecuted, type RunAnswer, type StepAttempt } from "latchkey";
import type { Database } from "./database.ts";
import type { Charge } from "./provider-ledger.ts";

/** The client's request. `order` is the client's own name for it. */
export interface ChargeInput {
  readonly account: string;
  readonly amount: number;
  readonly currency: string;
  readonly order: string;
}

export type ProviderInput = Pick<Charge, "amount" | "currency" | "description">;

export type Steps = Pick<StepAttempt<Database>, "phase" | "call" | "finish">;

export function chargeWork(provider: Effect<ProviderInput, Charge>) {
  return async ({ account, amount, currency, order }: ChargeInput, attempt: Steps): Promise<RunAnswer> => {
    const id = await attempt.phase("payment_recorded", async (tx) => {
      const { rows } = await tx.query(
        `insert into demo_charges (account, order_name, amount, currency, state)
         values ($1, $2, $3, $4, 'begun') returning id`,
        [account, order, amount, currency],
      );
      return Number(rows[0]?.id);
    });
    try {
      const charge = await attempt.call("charged", provider, { amount, currency, description: order });
      return await attempt.finish("payment_settled", async (tx) => {
        await tx.query("update demo_charges set state = 'charged', provider_charge = $2 where id = $1", [
          id,
          charge.id,
        ]);
        return { status: 201, body: { id, order, amount, currency, charge: charge.id } };
      });
    } catch (error) {
      if (!(error instanceof EffectRefused)) throw error;
      return await attempt.finish("payment_refused", async (tx) => {
        await tx.query("update demo_charges set state = 'refused' where id = $1", [id]);
        return { status: 402, body: { id, order, error: "the card was declined" } };
      });
    }
  };
}

/** Sends one charge to the provider, under the key by which the provider recognises it. */
export async function sendCharge(
  providerUrl: string,
  input: ProviderInput,
  { key, signal }: { readonly key: string; readonly signal: AbortSignal },
): Promise<Charge> {
  const response = await fetch(`${providerUrl}/charges`, {
    method: "POST",
    headers: { "content-type": "application/json", "idempotency-key": key },
    body: JSON.stringify(input),
    signal,
  });
  if (response.status === 402) throw new EffectRefused({ message: "the card was declined" });
  // The provider guarantees that a 503 is sent before anything happens; a 500 would prove nothing.
  if (response.status === 503) throw new NotExecuted({ message: "the provider is down" });
  if (response.status !== 201) throw new Error(`the provider answered ${response.status}`);
  return (await response.json()) as Charge;
}

/** True if no connection was established, so that nothing can have arrived. */
export function neverArrived(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : null;
  return cause instanceof Error && "code" in cause && cause.code === "ECONNREFUSED";
}
