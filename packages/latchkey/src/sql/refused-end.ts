import { LatchkeyError } from "../errors.ts";

/** The error for a handler that calls a method of its client's which would end the transaction. */
export function refusedEnd(method: string): LatchkeyError {
  const message = `\`${method}\` was called on a handler's \`tx\`: return from the handler to commit, throw to roll back`;
  return new LatchkeyError("transaction-control", { message });
}

export interface RefusedRollback {
  /** What a call was refused with; null: there was none. */
  refusal(): LatchkeyError | null;
  /** The method that refuses. */
  call(): Promise<never>;
}

/** A refused rollback. It also has to come out of the transaction: the handler may not have awaited it. */
export function refusedRollback(method: string): RefusedRollback {
  let refusal: LatchkeyError | null = null;
  return {
    refusal: () => refusal,
    call() {
      refusal ??= refusedEnd(method);
      const rejected = Promise.reject(refusal);
      rejected.catch(() => {});
      return rejected;
    },
  };
}
