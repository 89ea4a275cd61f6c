/** Reports that an ORM's subscriber has failed when it was notified of what had already become of a transaction. */
export function warnOfSubscriber(orm: string, event: string, error: unknown): void {
  process.emitWarning(`A subscriber of ${orm}'s failed at ${event}: ${String(error)}`, {
    type: "LatchkeyWarning",
    code: "LATCHKEY_SUBSCRIBER_FAILED",
  });
}
