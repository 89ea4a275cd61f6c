import type { LatchkeyRecord, RecordKey } from "../engine/record.ts";
import { MAX_KEY_LENGTH, parseKey } from "../key/parse-key.ts";
import { CommandError, UsageError } from "./command.ts";
import { shown } from "./text.ts";
import type { CommandStore } from "./with-store.ts";

/** What a person says of a record. */
export interface Named {
  readonly tenant: string;
  readonly operation: string;
  /** As the client sent it: quoted or bare; or as it was given to `latchkey.run`. */
  readonly key: string;
}

export interface FoundRecord {
  readonly key: RecordKey;
  readonly record: LatchkeyRecord;
  /** The store's time when it was read. */
  readonly now: number;
}

/** @throws {UsageError} unless there are exactly three, none of them empty. */
export function namedBy(positionals: readonly string[]): Named {
  const [tenant, operation, key, ...more] = positionals;
  if (!tenant || !operation || !key || more.length > 0) {
    throw new UsageError("Say which record: <tenant> <operation> <key>, each in quotes of your shell.");
  }
  return { tenant, operation, key };
}

/** @throws {CommandError} with exit code 3 when there is none, 4 when the name fits two. */
export async function findRecord(store: CommandStore, named: Named): Promise<FoundRecord> {
  const found: FoundRecord[] = [];
  for (const key of keysOf(named)) {
    const { record, now } = await store.read(key);
    if (record !== null && record.operation === named.operation) found.push({ key, record, now });
  }
  const [first, second] = found;
  if (first === undefined) throw new CommandError(notFound(named), { exitCode: 3 });
  if (second !== undefined) {
    const ids = found.map(({ record }) => record.id).join(" and ");
    throw new CommandError(`This name fits two records (${ids}): use \`latchkey.settle\` in the service.`, {
      exitCode: 4,
    });
  }
  return first;
}

/** Under `keyScope: "tenant"` a record's scope is `*`. A key of `latchkey.run` may look like a quoted one and not be. */
function keysOf({ tenant, operation, key }: Named): readonly RecordKey[] {
  const parsed = parseKey([key]);
  const keys = new Set([...(parsed.ok ? [parsed.key] : []), ...(key.length <= MAX_KEY_LENGTH ? [key] : [])]);
  return [operation, "*"].flatMap((scope) => [...keys].map((one) => ({ tenant, scope, key: one })));
}

function notFound({ tenant, operation, key }: Named): string {
  return (
    `There is no record of ${shown(operation)} for tenant ${shown(tenant)} with key ${shown(key)}. ` +
    "It never came, was released because nothing happened, or has been forgotten."
  );
}
