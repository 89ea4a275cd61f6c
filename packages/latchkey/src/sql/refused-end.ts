import { LatchkeyError } from "../errors.ts";

/** The error for a handler that calls a method of its client that would end the transaction. */
export function refusedEnd(method: string): LatchkeyError {
  const message = `\`${method}\` was called on a handler's \`tx\`: return from the handler to commit, throw to roll back`;
  return new LatchkeyError("transaction-control", { message });
}

export interface RefusedRollback {
  /** The error with which a call was refused; null if there was no call. */
  refusal(): LatchkeyError | null;
  /** The method that refuses. */
  call(): Promise<never>;
}

/** Refuses a rollback. The bridge must throw the refusal as well, because the handler may not have awaited the call. */
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
