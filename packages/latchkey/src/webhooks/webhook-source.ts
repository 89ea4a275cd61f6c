/**
 * The contract of a sender's webhooks. A source decides whether a delivery is genuine, by the user's own verifier over the
 * bytes as received, and names the id that the sender gives the event. It uses no store.
 */

/** One HTTP request from a sender. */
export interface WebhookDelivery {
  /** The value of a header; null: the header is missing. */
  header(name: string): string | null;
  /** The bytes of the body as received. */
  readonly body: Uint8Array;
  /** The framework's own request. */
  readonly request: unknown;
}

export interface WebhookSource<E> {
  /** Used in error messages, such as `Stripe`. */
  readonly name: string;
  /** How long the sender may repeat an event, in milliseconds. The operation must remember it for longer. */
  readonly retryWindowMs: number;
  /** Never throws: if the verifier throws, the delivery is forged. */
  verify(delivery: WebhookDelivery): Promise<Verified<E>>;
}

export type Verified<E> =
  /** `id` is the same in all retries of this event; null or empty: the sender sent none. */
  | { readonly kind: "genuine"; readonly id: string | null; readonly event: E }
  | { readonly kind: "forged"; readonly error: unknown };
