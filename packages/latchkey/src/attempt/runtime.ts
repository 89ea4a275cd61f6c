import type { Codec } from "../codec.ts";
import type { RecordKey } from "../engine/record.ts";
import type { Ports } from "../ports.ts";
import type { Limits } from "../resilience/limits.ts";
import type { Store } from "../stores/store.ts";
import type { About, LatchkeyEvent } from "../telemetry/events.ts";

/** What running an attempt needs; resolved once by `createLatchkey`. */
export interface Runtime<Tx> {
  readonly store: Store<Tx>;
  readonly codec: Codec;
  readonly ports: Ports;
  /** Whether a 2xx that never used its `tx` is an error. */
  readonly strict: boolean;
  readonly limits: Limits;
  /** Reports an event; never throws. */
  readonly emit: (event: LatchkeyEvent) => void;
  /** What an event about this key says of it: never the key itself. */
  readonly about: (operation: string, key: RecordKey) => About;
}
