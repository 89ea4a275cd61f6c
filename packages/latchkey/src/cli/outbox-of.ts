import type { OutboxSupport } from "../stores/outbox.ts";
import { CommandError } from "./command.ts";
import type { OpenService } from "./with-service.ts";

/** @throws {CommandError} when the store has no outbox. */
export function outboxOf({ name, outbox }: OpenService["runtime"]["store"]): OutboxSupport {
  if (outbox === null) throw new CommandError(`Store ${name} has no outbox.`);
  return outbox;
}
