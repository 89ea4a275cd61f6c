import type { RecordKey } from "../engine/record.ts";
import { hashKey } from "../key/hash-key.ts";
import type { Random } from "../ports.ts";
import type { About, EventListener, LatchkeyEvent } from "./events.ts";

export interface Emitter {
  /** Reports an event; never throws. */
  readonly emit: (event: LatchkeyEvent) => void;
  /** The fields that identify a stored key in events: never the key itself. */
  readonly about: (operation: string, key: RecordKey) => About;
}

/**
 * The reporting half of the runtime. Errors of a listener are dropped: reporting never changes an outcome.
 *
 * @throws {TypeError} when the secret is empty.
 */
export function createEmitter(
  listener: EventListener | undefined,
  secret: string | undefined,
  random: Random,
): Emitter {
  if (secret === "") throw new TypeError("logSecret must not be empty");
  // Drawn at first use: Cloudflare's runtime has no randomness while a module is loaded.
  let drawn: string | null = null;
  const hashSecret = () => {
    drawn ??= secret ?? random.token();
    return drawn;
  };
  let warned = false;
  return {
    emit(event) {
      try {
        if (listener === undefined && event.type === "store_error" && !warned) {
          warned = true;
          warnOfStore(event.error);
        }
        // The type also allows an asynchronous listener, whose rejection would end the process.
        const returned: unknown = listener?.(event);
        if (returned instanceof Promise) returned.catch(() => {});
      } catch {
        // Dropped, see above.
      }
    },
    about: (operation, { tenant, scope, key }) => ({
      operation,
      tenant,
      // Without a listener there is no need to hash.
      keyHash: listener === undefined ? "" : hashKey(hashSecret(), tenant, scope, key),
    }),
  };
}

/** A 503 does not give clients the reason, so without a listener the reason would be lost. */
function warnOfStore(error: unknown): void {
  const { message, cause } = error instanceof Error ? error : new Error(String(error));
  // If all addresses of a host refuse the connection, Node's error has no message.
  const { message: details = "", code = "" } = (cause ?? {}) as {
    readonly message?: string;
    readonly code?: string;
  };
  const reason = [message, details || code].filter(Boolean).join(": ");
  process.emitWarning(
    `A request got 503 because the store failed: ${reason.replace(/\.$/u, "")}. This warning appears once; \`onEvent\` reports every failure.`,
    { type: "LatchkeyWarning", code: "LATCHKEY_STORE_FAILED" },
  );
}
