import type { OutboxSupport } from "../stores/outbox.ts";
import { CommandError } from "./command.ts";
import type { CommandStore } from "./with-store.ts";

/** @throws {CommandError} when the store keeps no effects. */
export function outboxOf({ name, outbox }: CommandStore): OutboxSupport {
  if (outbox === null) throw new CommandError(`Store ${name} has no outbox.`);
  return outbox;
}
