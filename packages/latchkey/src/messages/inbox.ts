/**
 * The inbox: a message is an attempt of an operation, under the id that its sender gave it. It runs once even if it is
 * delivered twice, and its acknowledgement waits for the COMMIT. `broker.ts` defines what a verdict means for a broker.
 */

import type { DirectExecution, Execution } from "../engine/classify.ts";
import type { Runtime } from "../execution/runtime.ts";
import { submit, submitOwned } from "../execution/submit.ts";
import { TransactionBatches } from "../execution/transaction/batches.ts";
import type { Latchkey } from "../latchkey.ts";
import type { HandlerContext, Work } from "../operations/attempt.ts";
import type { Operation } from "../operations/operation.ts";
import { type OwnedOperation, ownsItsWork } from "../operations/owned-operation.ts";
import type { Message } from "./broker.ts";
import { type InboxOptions, resolveInboxOptions } from "./inbox-options.ts";
import { type Inbox, MessageInbox, type SubmitMessage } from "./message-inbox.ts";
import { checkRemembered } from "./remembered.ts";
import { Tallies } from "./tallies.ts";

export type { Inbox, InboxOptions };

/** Runs one message. If it throws, everything is rolled back, and the message is retried. */
export type MessageHandler<Tx, E extends DirectExecution, I> = (
  context: HandlerContext<Tx, E> & { readonly input: I; readonly message: Message },
) => Promise<void>;

/**
 * Makes an inbox for one operation. Adapters of brokers are built on it; for a broker without an adapter, pass its messages to
 * `consume` and carry out the verdict.
 *
 * @param handler runs a message; only for an operation that does not own its work
 * @throws {TypeError} when an option is missing or out of range, the store keeps no messages, or the operation forgets keys
 * sooner than the inbox may try a message again.
 */
export function createInbox<Tx, E extends Execution, I>(
  latchkey: Latchkey<Tx>,
  operation: OwnedOperation<E, I>,
  options: InboxOptions<I>,
): Inbox;
export function createInbox<Tx, E extends DirectExecution, I = unknown>(
  latchkey: Latchkey<Tx>,
  operation: Operation<E>,
  options: InboxOptions<I>,
  handler: MessageHandler<Tx, E, I>,
): Inbox;
export function createInbox<Tx, E extends DirectExecution, I>(
  latchkey: Latchkey<Tx>,
  operation: Operation<E> | OwnedOperation<E, I>,
  options: InboxOptions<I>,
  handler?: MessageHandler<Tx, E, I>,
): Inbox {
  const settings = resolveInboxOptions(options);
  const { runtime } = latchkey;
  if (typeof options.tenant === "string") requireNoCredential(runtime, options.tenant);
  const { messages: support, name } = runtime.store;
  if (support === null)
    throw new TypeError(`Store ${name} keeps no messages, so it cannot be used for an inbox`);
  const submitMessage = submitter(latchkey, operation, handler);
  checkRemembered(operation, settings);
  const { batchSize } = settings;
  const batches = batchSize === false ? null : batchesOf(runtime, operation, batchSize);
  const tallies = new Tallies(runtime, support, settings.keepMs);
  return new MessageInbox(runtime, operation, settings, submitMessage, tallies, batches);
}

/** Throws if a fixed `tenant` looks like a credential. If a function returns one for a message, only that message is a dead letter. */
function requireNoCredential<Tx>({ checkIdentity }: Runtime<Tx>, tenant: string): void {
  try {
    checkIdentity("tenant", tenant);
  } catch (cause) {
    throw new TypeError(cause instanceof Error ? cause.message : String(cause), { cause });
  }
}

/** @throws {TypeError} when the operation's transactions cannot be shared */
function batchesOf<Tx>(runtime: Runtime<Tx>, operation: Operation, size: number): TransactionBatches<Tx> {
  const { name, execution, settings } = operation;
  const { store } = runtime;
  if (execution !== "transaction") {
    throw new TypeError(
      `batchSize: operation ${name} has execution "${execution}", and only transactions are shared`,
    );
  }
  if (settings.isolation === "serializable") {
    throw new TypeError(
      `batchSize: operation ${name} has isolation "serializable": one conflict would undo every message`,
    );
  }
  if (store.transactions?.runBatch === undefined) {
    throw new TypeError(
      `batchSize: store ${store.name} does not support transactions for several messages; postgresStore over a \`pg\` pool does`,
    );
  }
  return new TransactionBatches(runtime, operation, size);
}

function submitter<Tx, E extends DirectExecution, I>(
  latchkey: Latchkey<Tx>,
  operation: Operation<E> | OwnedOperation<E, I>,
  handler: MessageHandler<Tx, E, I> | undefined,
): SubmitMessage<Tx, I> {
  const { runtime } = latchkey;
  if (runtime.operations.get(operation.name) !== operation) {
    throw new TypeError(`Operation ${operation.name} was defined on another latchkey`);
  }
  if (operation.settings.onStoreFailure !== "refuse") {
    // A message whose end cannot be recorded would run again and again.
    throw new TypeError(
      `Operation ${operation.name} may run unprotected, which messages must not: set onStoreFailure to "refuse"`,
    );
  }
  if (operation.settings.keyScope === "path") {
    throw new TypeError(
      `Operation ${operation.name} has keyScope "path", and messages have no path: set keyScope to "operation"`,
    );
  }
  if (ownsItsWork(operation)) {
    if (handler !== undefined)
      throw new TypeError(`Operation ${operation.name} owns its work: leave out the handler`);
    const owned = operation as OwnedOperation<E, I>;
    return (_, { submission, input }, batches) => submitOwned(runtime, owned, submission, input, batches);
  }
  if (typeof handler !== "function") {
    throw new TypeError(`Operation ${operation.name} has no \`run\`: pass a handler for its messages`);
  }
  return (message, { submission, input }, batches) => {
    const work: Work<Tx, E> = async (context) => {
      await handler({ ...context, input, message });
      return { status: 204, headers: [], body: new Uint8Array(), omitted: null };
    };
    return submit(runtime, operation, submission, work, batches);
  };
}
