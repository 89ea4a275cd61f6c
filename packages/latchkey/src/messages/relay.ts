/** Shared by the relays of all brokers: effects that publish. */
import type { DeliveryOptions, EffectLimits, EffectOptions } from "../effects/effect.ts";
import type { OptionNames } from "../known-options.ts";

export interface RelayOptions {
  readonly limits?: EffectLimits;
  /** `ordered` keeps the order within an aggregate. */
  readonly delivery?: DeliveryOptions;
}

export const relayOptionNames = { limits: true, delivery: true } as const satisfies OptionNames<RelayOptions>;

const year = 365 * 24 * 60 * 60 * 1_000;

/**
 * An effect that publishes. It may always publish again, because a message's id is its downstream key, by which brokers and
 * inboxes recognise a duplicate. So a message in doubt is sent again, and never waits for a person.
 */
export function relayEffect<I>(
  { limits, delivery }: RelayOptions,
  publish: EffectOptions<I, null>["execute"],
): EffectOptions<I, null> {
  return {
    deduplication: "provider",
    dedupeWindowMs: year,
    execute: publish,
    ...(limits === undefined ? {} : { limits }),
    ...(delivery === undefined ? {} : { delivery }),
  };
}
