/**
 * The contract of a sender's webhooks. A source says whether a delivery is genuine, by the user's own verifier and over the
 * bytes as they came, and by which id its sender knows the event. It asks nothing of a store.
 */

/** One HTTP request of a sender's. */
export interface WebhookDelivery {
  /** The value of a header; null: there is none. */
  header(name: string): string | null;
  /** The bytes of the body, as they were sent. */
  readonly body: Uint8Array;
  /** The framework's own request. */
  readonly request: unknown;
}

export interface WebhookSource<E> {
  /** For messages: `Stripe`. */
  readonly name: string;
  /** How long the sender may send one event again, in milliseconds. An operation must remember for longer. */
  readonly retryWindowMs: number;
  /** Never throws: what a verifier throws makes the delivery forged. */
  verify(delivery: WebhookDelivery): Promise<Verified<E>>;
}

export type Verified<E> =
  /** `id` is what the sender's retries of this event have in common; null or empty: it sent none. */
  | { readonly kind: "genuine"; readonly id: string | null; readonly event: E }
  | { readonly kind: "forged"; readonly error: unknown };
