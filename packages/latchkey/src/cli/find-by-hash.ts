/** Finds a record by the `keyHash` of an event. No index has it, so records are scanned. */
import type { RecordState } from "../engine/record.ts";
import { hashKey } from "../key/hash-key.ts";
import { type CommandContext, CommandError, UsageError } from "./command.ts";
import type { FoundRecord } from "./find-record.ts";
import { shown } from "./text.ts";
import type { CommandStore } from "./with-store.ts";

export interface HashName {
  readonly keyHash: string;
  /** Null: any. */
  readonly tenant: string | null;
  readonly operation: string | null;
}

/** The states that operators most often look for come first. */
const states: readonly RecordState[] = [
  "unknown",
  "in_progress",
  "retryable",
  "pending",
  "completed",
  "failed",
  "expired",
];

const pageSize = 200;
/** A scan of this size takes seconds, and does not burden a service's database. */
const scannedMax = 100_000;

export const secretVariable = "LATCHKEY_LOG_SECRET";

/** @throws {UsageError} without the secret that the service uses for its hashes. */
export function logSecretOf({ env }: CommandContext, { keyHash }: HashName): string {
  const secret = env[secretVariable];
  if (secret) return secret;
  throw new UsageError(
    `${keyHash} looks like a \`keyHash\` of an event. To find its record, set ${secretVariable} to the \`logSecret\` of the service; without a \`logSecret\` each process uses its own, and only the \`recordId\` of the same event names the record.`,
  );
}

/** @throws {CommandError} with exit code 3 when no record has it, or none of those scanned. */
export async function findByHash(store: CommandStore, name: HashName, secret: string): Promise<FoundRecord> {
  let left = scannedMax;
  for (const state of states) {
    let after: { readonly createdAt: number; readonly id: string } | null = null;
    for (;;) {
      const { tenant, operation } = name;
      const page = await store.settlement.list({ state, tenant, operation, limit: pageSize, after });
      const hit = page.find((one) => hashKey(secret, one.tenant, one.scope, one.key) === name.keyHash);
      if (hit !== undefined) {
        const key = { tenant: hit.tenant, scope: hit.scope, key: hit.key };
        const { record, now } = await store.read(key);
        if (record !== null) return { key, record, now };
      }
      left -= page.length;
      if (left <= 0) throw new CommandError(tooMany(name), { exitCode: 3 });
      const last = page.at(-1);
      if (last === undefined || page.length < pageSize) break;
      after = { createdAt: last.createdAt, id: last.id };
    }
  }
  throw new CommandError(
    `No record has the keyHash ${name.keyHash}${among(name)}: it was released because nothing happened, has been forgotten, or the hash was made with another \`logSecret\`.`,
    { exitCode: 3 },
  );
}

function tooMany(name: HashName): string {
  const narrower = name.tenant === null ? " Also name the tenant and the operation." : "";
  return `None of the ${scannedMax} scanned records${among(name)} has the keyHash ${name.keyHash}; there are more.${narrower} The \`recordId\` of the same event finds it at once.`;
}

function among({ tenant, operation }: HashName): string {
  return tenant === null ? "" : ` among those of ${shown(operation ?? "")} for tenant ${shown(tenant)}`;
}
