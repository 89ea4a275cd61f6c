import type { Runtime } from "../attempt/runtime.ts";
import { hashKey } from "../key/hash-key.ts";
import type { Random } from "../ports.ts";
import type { EventListener } from "./events.ts";

/**
 * The reporting half of the runtime. What a listener throws is dropped: reporting never changes an outcome.
 *
 * @throws {TypeError} when the secret is empty.
 */
export function createEmitter(
  listener: EventListener | undefined,
  secret: string | undefined,
  random: Random,
): Pick<Runtime<never>, "emit" | "about"> {
  const hashSecret = secret ?? random.token();
  if (hashSecret.length === 0) throw new TypeError("logSecret must not be empty");
  return {
    emit(event) {
      try {
        // An asynchronous listener fits the type too, and its rejection would end the process.
        const returned: unknown = listener?.(event);
        if (returned instanceof Promise) returned.catch(() => {});
      } catch {
        // Dropped, see above.
      }
    },
    about: (operation, { tenant, scope, key }) => ({
      operation,
      tenant,
      // Nobody to tell: no need to hash.
      keyHash: listener === undefined ? "" : hashKey(hashSecret, tenant, scope, key),
    }),
  };
}
