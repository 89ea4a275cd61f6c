/** What must hold, in one line each. The words are those of docs/glossary.md. */
export const safety: readonly string[] = [
  "At most one committed business effect per life of (tenant, scope, key).",
  "The same key with another fingerprint never runs, and never replays the other's body.",
  "Every replay is byte-identical to the first completion (status, stored headers in order, body), across restarts, stores and versions.",
  "An owner whose fence is no longer valid cannot complete, renew, checkpoint, enqueue, release, or answer with its own result.",
  "A record in a final state stays in it.",
  "A record that is `unknown` never runs again without a recorded decision and its proof.",
  "Every downstream call of one (record, step, generation) carries the same key and input, on every attempt and by every owner.",
  "If the store cannot be reached, is read-only or leaves an outcome in doubt, business code does not start; if it ran, the answer is in doubt, never success.",
  "An outbox row exists if and only if its transaction committed.",
  "Recovery points only advance; a finished step never runs again.",
  "What tenant A observes depends on tenant A's requests alone.",
  "The cleaner never removes a record that is running, is unknown or has undelivered effects.",
  "Fences are never used twice, also after a failover.",
  "Each key's history is linearizable against the sequential model; operations that crashed may or may not have happened.",
  "No acknowledged completion is lost in the declared durability mode.",
];

/** Once faults stop. */
export const liveness: readonly string[] = [
  "No key is stuck beyond its lease or transaction limit, one sweep and one retry.",
  "Every committed effect is delivered or in dead letters.",
  "Every unknown is settled, or visible to the operator with its age.",
  "A waiting duplicate gets an answer by its deadline, and holds no connection while it waits.",
  "When the store is back the service serves again without a restart, and no connection has leaked.",
];
