/** Shared by the tests of HTTP adapters: a service on a memory store, and access to its answers from outside. */
import { expect } from "vitest";
import { createLatchkey, type Latchkey } from "../../packages/latchkey/src/latchkey.ts";
import type { Operation, OperationOptions } from "../../packages/latchkey/src/operations/operation.ts";
import {
  type MemoryStore,
  type MemoryTransaction,
  memoryStore,
} from "../../packages/latchkey/src/stores/memory.ts";
import type { Store } from "../../packages/latchkey/src/stores/store.ts";
import type { LatchkeyEvent } from "../../packages/latchkey/src/telemetry/events.ts";
import {
  type HttpAnswer,
  type HttpCall,
  newKey,
  send,
} from "../../packages/latchkey-conformance/src/http-conformance/client.ts";

export interface HttpService {
  readonly latchkey: Latchkey<MemoryTransaction>;
  readonly memory: MemoryStore;
  readonly events: readonly LatchkeyEvent[];
  /** `transaction`, without a warning about handlers that write nothing. */
  readonly operation: (options?: OperationOptions) => Operation<"transaction">;
  readonly lease: (options?: OperationOptions) => Operation<"lease">;
  /** Errors that were reported for handlers. */
  reported(): unknown[];
}

export interface HttpServiceOptions {
  /** How many COMMITs the database refuses with a serialization failure before it accepts them. Default 0. */
  readonly refusedCommits?: number;
  /** Lets other work run between the end of a transaction and its confirmation, as a network does. Default false. */
  readonly distant?: boolean;
  /** Delays the confirmation of a COMMIT. Default: it is confirmed at once. */
  readonly committing?: Promise<unknown>;
}

export function httpService(options: HttpServiceOptions = {}): HttpService {
  const events: LatchkeyEvent[] = [];
  const memory = memoryStore();
  const store = withCommits(memory, options);
  const latchkey = createLatchkey({ store, onEvent: (event) => events.push(event) });
  return {
    latchkey,
    memory,
    events,
    operation: (given = {}) =>
      latchkey.operation("run", { writes: "none", ...given, execution: "transaction" }),
    lease: (given = {}) => latchkey.operation("run", { ...given, execution: "lease" }),
    reported: () => events.flatMap((event) => (event.type === "attempt_failed" ? [event.error] : [])),
  };
}

/** If a COMMIT is refused, the handler has answered, but its transaction is rolled back and runs again. */
function withCommits(
  inner: MemoryStore,
  { refusedCommits = 0, distant = false, committing }: HttpServiceOptions,
): Store<MemoryTransaction> {
  const { transactions } = inner;
  if (transactions === null) throw new TypeError("the memory store must have transactions");
  let left = refusedCommits;
  return {
    ...inner,
    transactions: {
      ...transactions,
      async run(request, work) {
        let refused = false;
        const outcome = await transactions.run(request, async (open) => {
          const end = await work(open);
          refused = end.end === "commit" && left-- > 0;
          return refused ? { end: "rollback", value: end.value } : end;
        });
        await committing;
        for (let round = 0; distant && round < 20; round++) {
          await new Promise((resolve) => setImmediate(resolve));
        }
        if (!refused) return outcome;
        return {
          kind: "refused",
          value: outcome.value,
          because: "serialization",
          error: serializationFailure(),
        };
      },
    },
  };
}

/** An error that makes a transaction run again. */
export function serializationFailure(): Error {
  return Object.assign(new Error("could not serialize access"), { code: "40001" });
}

/** Headers of the server itself, which differ between connections or over time. */
const ownOfConnection = new Set(["connection", "content-length", "date", "keep-alive", "transfer-encoding"]);

/** Expects two answers to be the same to a client: status line, header lines in any order, body. */
export function expectSameAnswer(actual: HttpAnswer, expected: HttpAnswer): void {
  expect(describeAnswer(actual)).toEqual(describeAnswer(expected));
  expect(actual.body.equals(expected.body)).toBe(true);
}

function describeAnswer({ status, statusText, lines, body }: HttpAnswer): object {
  const seen = lines.filter(([name]) => !ownOfConnection.has(name)).map((line) => line.join(": "));
  return { status, statusText, lines: seen.sort(), body: body.toString("latin1").slice(0, 300) };
}

/** Sends a request and disconnects when `started` fires; repeats it until it is answered, and returns that answer. */
export async function retryAfterHangUp(
  url: string,
  started: Promise<void>,
  released: () => void,
  call: HttpCall = {},
): Promise<HttpAnswer> {
  const key = newKey();
  const hangUp = new AbortController();
  const lost = send(url, { ...call, key }, hangUp.signal);
  await started;
  hangUp.abort();
  await expect(lost).rejects.toThrow();
  released();
  let retry = await send(url, { ...call, key });
  for (let round = 0; round < 500 && retry.status === 409; round++) retry = await send(url, { ...call, key });
  return retry;
}
