import Stripe from "stripe";

/** Retries a POST by itself: twice, after a lost connection, a time-out, 409 and every 5xx. */
export const stripeAt = (host: string, port: number) =>
  new Stripe("sk_test_anything", { host, port, protocol: "http" });
