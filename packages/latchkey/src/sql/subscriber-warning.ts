/** Warns that an ORM's subscriber has failed when it was notified of a transaction that had already ended. */
export function warnOfSubscriber(orm: string, event: string, error: unknown): void {
  process.emitWarning(`A subscriber of ${orm} failed at ${event}: ${String(error)}`, {
    type: "LatchkeyWarning",
    code: "LATCHKEY_SUBSCRIBER_FAILED",
  });
}
