/** What adapters do before they call a handler. */
import { NotExecuted } from "../../errors.ts";

/** Its cause kept a handler from starting. The exchange throws the cause on. */
export class NotStarted extends NotExecuted {}

function notStarted(cause: unknown): NotStarted {
  return new NotStarted({ cause });
}

/** A step before the handler: where it fails nothing was executed, and the key is free again, under a lease too. */
export function beforeHandler<T>(step: () => T): T {
  try {
    return step();
  } catch (cause) {
    throw notStarted(cause);
  }
}
