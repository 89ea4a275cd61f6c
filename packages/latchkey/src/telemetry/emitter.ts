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
  // Nobody sees what nobody listens to: an HMAC costs as much as the whole decision.
  if (listener === undefined) return { emit: () => {}, keyHash: () => "" };
  const hashSecret = secret ?? random.token();
  // One submission reports several times under one key object.
  const hashes = new WeakMap<RecordKey, string>();
  return {
    emit(event) {
      try {
        listener(event);
      } catch {
        // Dropped, see above.
      }
    },
    keyHash(key) {
      const known = hashes.get(key);
      if (known !== undefined) return known;
      const hash = hashKey(hashSecret, key.tenant, key.scope, key.key);
      hashes.set(key, hash);
      return hash;
    },
  };
}
