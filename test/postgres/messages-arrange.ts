/** Messages for the tests of the Postgres store. */
import { systemPorts } from "../../packages/latchkey/src/ports.ts";
import type {
  MessageFacts,
  MessageLetter,
  MessageSupport,
} from "../../packages/latchkey/src/stores/messages.ts";
import type { Store } from "../../packages/latchkey/src/stores/store.ts";
import type { TestTx } from "./harness.ts";

const { random, clock } = systemPorts;

export const newId = () => random.uuid(clock.wallMs());

export function newMessage(): MessageFacts {
  const digest = newId().replaceAll("-", "").repeat(2);
  return { digest, source: "orders", operation: "shipments.create", tenant: "t", key: "k" };
}

export function newLetter(): MessageLetter {
  return { id: newId(), reason: "refused", contentType: null, payload: Uint8Array.of(0, 255) };
}

export const oneStart = { starts: 1, returns: 0, failures: 0, errorCode: null, keepMs: 60_000 };

export function messagesOf({ messages }: Store<TestTx>): MessageSupport {
  if (messages === null) throw new Error("the store keeps messages");
  return messages;
}
