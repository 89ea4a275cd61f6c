/** A command's store: the database that its options name, or with `--config` that of the service. */
import { resolve } from "node:path";
import type { Runtime } from "../execution/runtime.ts";
import { createLatchkey } from "../latchkey.ts";
import { type DeadMessages, deadMessages, type Republish } from "../messages/dead-messages.ts";
import { type CommandContext, CommandError, UsageError } from "./command.ts";
import { loadConfig } from "./load-config.ts";
import { type DatabaseValues, withStore } from "./with-store.ts";

export const serviceOptions = { config: { type: "string" } } as const;

export interface ServiceValues extends DatabaseValues {
  readonly config?: string | undefined;
}

export interface OpenService {
  readonly runtime: Pick<Runtime<unknown>, "store" | "ports">;
  /** @throws {CommandError} when the store has no messages */
  readonly messages: DeadMessages;
  /** Whether stored values can be decoded: a command without a config does not have the service's codec. */
  readonly hasCodec: boolean;
  readonly republish: Republish | null;
}

/**
 * Opens it for one command, checks that its tables exist, and closes it afterwards.
 *
 * @throws {UsageError} for both a config and a database
 * @throws {CommandError} when the config is invalid
 */
export async function withService<T>(
  context: CommandContext,
  values: ServiceValues,
  work: (service: OpenService) => Promise<T>,
): Promise<T> {
  if (values.config === undefined) {
    return withStore(context, values, (store) => {
      const latchkey = createLatchkey({ store });
      const messages = deadMessages(latchkey);
      return work({ runtime: latchkey.runtime, messages, hasCodec: false, republish: null });
    });
  }
  for (const option of ["database-url", "schema"] as const) {
    if (values[option] !== undefined) throw new UsageError(`--${option} and --config exclude each other.`);
  }
  const config = await loadConfig(resolve(context.cwd, values.config));
  try {
    const { latchkey, republish = null } = config;
    const { store } = latchkey.runtime;
    await store.verify();
    const { runtime } = latchkey;
    return await work({
      runtime,
      get messages() {
        if (store.messages === null) throw new CommandError(`Store ${store.name} has no messages.`);
        return deadMessages(latchkey);
      },
      hasCodec: true,
      republish,
    });
  } finally {
    await config.close?.();
  }
}
