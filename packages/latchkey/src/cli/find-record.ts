import { recordIdOf } from "../effects/downstream-key.ts";
import type { LatchkeyRecord, RecordKey, RecordState } from "../engine/record.ts";
import {
  type ClientsName,
  findRecord as find,
  isRecordId,
  keysOf,
  type RecordName,
} from "../execution/find-record.ts";
import { hashKey } from "../key/hash-key.ts";
import { type CommandContext, CommandError, refusal, UsageError } from "./command.ts";
import { isKeyHash } from "./options.ts";
import { shown } from "./text.ts";
import type { CommandStore } from "./with-store.ts";

export interface FoundRecord {
  readonly key: RecordKey;
  readonly record: LatchkeyRecord;
  /** The store's time when it was read. */
  readonly now: number;
}

/** A database has keys as the service stores them; the service's secret, if any, is not available here. */
const storedKey = (key: RecordKey) => key;

/** Lines in the help of commands. */
export const namesHelp = `\
Name a record by its id, by the downstream key of one of its calls or effects, or by <tenant> <operation> <key>: the key as
the client sent it, quoted or bare, or as the service stores it. A key that is unique to a path (keyScope "path") needs
--path, the request's path.`;

/** A line in the options of commands. */
export const pathHelp = `\
  --path <path>         the request's path, if keys are unique to a path (keyScope "path")`;

/**
 * @param path the request's path, if the key is unique to a path
 * @throws {UsageError} unless it is a record's id, a downstream key, or three non-empty parts.
 */
export function namedBy(positionals: readonly string[], path?: string): RecordName {
  const [tenant, operation, key, ...more] = positionals;
  if (path !== undefined && !path.startsWith("/")) {
    throw new UsageError('--path takes the path of a request, such as "/items/1".');
  }
  if (tenant && positionals.length === 1) {
    if (path !== undefined) throw new UsageError("--path needs <tenant> <operation> <key>.");
    if (isRecordId(tenant)) return { recordId: tenant };
    if (recordIdOf(tenant) !== null) return { downstreamKey: tenant };
    if (isKeyHash(tenant)) {
      throw new UsageError(
        `${tenant} looks like a \`keyHash\` of an event, which names a key but not a life: \`latchkey inspect ${tenant}\` shows the record's id.`,
      );
    }
  }
  if (!tenant || !operation || !key || more.length > 0) {
    throw new UsageError(
      "Name a record: by its id, a downstream key, or <tenant> <operation> <key>, each quoted for your shell.",
    );
  }
  return path === undefined ? { tenant, operation, key } : { tenant, operation, key, path };
}

/**
 * A key may by now belong to a later life than the one that the operator looked at.
 *
 * @throws {UsageError}
 */
export function lifeNamedBy(
  positionals: readonly string[],
  values: {
    readonly record?: string | undefined;
    readonly "downstream-key"?: string | undefined;
    readonly path?: string | undefined;
  },
): RecordName {
  const named = namedBy(positionals, values.path);
  const { record: recordId } = values;
  if (recordId !== undefined) {
    if (!isRecordId(recordId)) throw new UsageError("--record takes a record's id: see `latchkey inspect`.");
    return { ...named, recordId } as RecordName;
  }
  if (named.key !== undefined && values["downstream-key"] === undefined) {
    throw new UsageError(
      "The key may have a later life by now: name the record that you looked at by its id, alone or with --record <id>.",
    );
  }
  return named;
}

/** @throws {CommandError} with exit code 3 if there is none, 4 if two have the name, or the key has another life. */
export async function findRecord(store: CommandStore, named: RecordName): Promise<FoundRecord> {
  const found = await find({ store, storedKey }, named);
  switch (found.kind) {
    case "record":
      return found;
    case "no_such_call":
      throw refusal(
        `Record ${found.record.id} no longer has a call or effect under ${named.downstreamKey}: see \`latchkey inspect ${found.record.id}\`.`,
      );
    case "other_life":
      throw refusal(`The key now has another life, record ${found.record.id}. Nothing was changed.`);
    case "ambiguous":
      throw refusal(`Two records have this name (${found.recordIds.join(" and ")}): use the id.`);
    case "effect": {
      const { id, recordId } = found.effect;
      throw new CommandError(
        `Effect ${id} has outlived its record ${recordId}: see \`latchkey list --dead\`.`,
        {
          exitCode: 3,
        },
      );
    }
    case "not_found":
      throw new CommandError(await notFound(store, named), { exitCode: 3 });
    default:
      return found satisfies never;
  }
}

async function notFound(store: CommandStore, named: RecordName): Promise<string> {
  if (named.key === undefined) {
    const name = named.recordId ?? named.downstreamKey ?? "";
    return `No record has the name ${shown(name)}: it was released because nothing happened, was forgotten, or its transaction is still running.`;
  }
  const { tenant, operation, key, path } = named as ClientsName;
  const at = path === undefined ? "" : ` and path ${shown(path)}`;
  const what = `record of ${shown(operation)} for tenant ${shown(tenant)} with key ${shown(key)}${at}`;
  for (const one of keysOf({ storedKey }, named as ClientsName)) {
    if (await store.isRunning?.(one)) {
      return `There is no ${what} yet: its transaction is running, and writes the record when it commits.`;
    }
  }
  const elsewhere =
    path === undefined ? " For a key that is unique to a path (keyScope `path`), add --path." : "";
  return `There is no ${what}. It never arrived, was released because nothing happened, or was forgotten.${elsewhere}`;
}

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
