import type { RecordKey } from "../engine/record.ts";
import { hashKey } from "../key/hash-key.ts";
import type { Random } from "../ports.ts";
import type { EventListener, LatchkeyEvent } from "./events.ts";

/** The reporting half of the runtime. What a listener throws is dropped: reporting never changes an outcome. */
export function createEmitter(
  listener: EventListener | undefined,
  secret: string | undefined,
  random: Random,
): { emit: (event: LatchkeyEvent) => void; keyHash: (key: RecordKey) => string } {
  const hashSecret = secret ?? random.token();
  return {
    emit(event) {
      try {
        listener?.(event);
      } catch {
        // Dropped, see above.
      }
    },
    keyHash: (key) => hashKey(hashSecret, key.tenant, key.scope, key.key),
  };
}
