import { recordIdOf } from "../effects/downstream-key.ts";
import type { LatchkeyRecord, RecordKey } from "../engine/record.ts";
import {
  type ClientsName,
  findRecord as find,
  isRecordId,
  keysOf,
  type RecordName,
} from "../execution/find-record.ts";
import { CommandError, refusal, UsageError } from "./command.ts";
import { isId, isKeyHash } from "./options.ts";
import { shown } from "./text.ts";
import type { CommandStore } from "./with-store.ts";

export interface FoundRecord {
  readonly key: RecordKey;
  readonly record: LatchkeyRecord;
  /** The store's time when it was read. */
  readonly now: number;
}

/** A database holds keys as the service stores them; its secret, if it has one, is not here. */
const storedKey = (key: RecordKey) => key;

/** Lines of a command's help. */
export const namesHelp = `\
A record is named by its id, by the downstream key of one of its calls or effects, or by <tenant> <operation> <key>: the key as
the client sent it, quoted or bare, or as the service stores it. A key that is unique to a path (keyScope "path") needs
--path, the path of the request.`;

/** Its line in a command's list of options. */
export const pathHelp = `\
  --path <path>         of the request, where a key is unique to a path (keyScope "path")`;

/**
 * @param path of the request, where a key is unique to a path
 * @throws {UsageError} unless it is a record's id, a downstream key, or three parts, none of them empty.
 */
export function namedBy(positionals: readonly string[], path?: string): RecordName {
  const [tenant, operation, key, ...more] = positionals;
  if (path !== undefined && !path.startsWith("/")) {
    throw new UsageError('--path takes the path of a request, such as "/items/1".');
  }
  if (tenant && positionals.length === 1) {
    if (path !== undefined) throw new UsageError("--path goes with <tenant> <operation> <key>.");
    if (isRecordId(tenant)) return { recordId: tenant };
    if (recordIdOf(tenant) !== null) return { downstreamKey: tenant };
    if (isKeyHash(tenant)) {
      throw new UsageError(
        `${tenant} looks like a \`keyHash\` of an event, which names a key and none of its lives: \`latchkey inspect ${tenant}\` shows the record's id.`,
      );
    }
  }
  if (!tenant || !operation || !key || more.length > 0) {
    throw new UsageError(
      "Say which record: its id, a downstream key, or <tenant> <operation> <key>, each in quotes of your shell.",
    );
  }
  return path === undefined ? { tenant, operation, key } : { tenant, operation, key, path };
}

/**
 * A key alone may stand for a later life than the one that the operator has looked up.
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
    if (!isId(recordId)) throw new UsageError("--record takes a record's id: see `latchkey inspect`.");
    return { ...named, recordId } as RecordName;
  }
  if (named.key !== undefined && values["downstream-key"] === undefined) {
    throw new UsageError(
      "A key may stand for a later life by now: say which record you looked at by its id, alone or with --record <id>.",
    );
  }
  return named;
}

/** @throws {CommandError} with exit code 3 when there is none, 4 when the name fits two, or another life than the one named. */
export async function findRecord(store: CommandStore, named: RecordName): Promise<FoundRecord> {
  const found = await find({ store, storedKey }, named);
  switch (found.kind) {
    case "record":
      return found;
    case "no_such_call":
      throw refusal(
        `Record ${found.record.id} has no call or effect under ${named.downstreamKey} any more: see \`latchkey inspect ${found.record.id}\`.`,
      );
    case "other_life":
      throw refusal(`The key has another life by now, record ${found.record.id}. Nothing was changed.`);
    case "ambiguous":
      throw refusal(`This name fits two records (${found.recordIds.join(" and ")}): name it by its id.`);
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
    return `There is no record under ${shown(name)}: it was released because nothing happened, has been forgotten, or its transaction still runs.`;
  }
  const { tenant, operation, key, path } = named as ClientsName;
  const at = path === undefined ? "" : ` and path ${shown(path)}`;
  const what = `record of ${shown(operation)} for tenant ${shown(tenant)} with key ${shown(key)}${at}`;
  for (const one of keysOf({ storedKey }, named as ClientsName)) {
    if (await store.isRunning?.(one)) {
      return `There is no ${what} yet: it is running now, in a transaction that writes it when it commits.`;
    }
  }
  const elsewhere =
    path === undefined ? " A key that is unique to a path (keyScope `path`) is found with --path, too." : "";
  return `There is no ${what}. It never came, was released because nothing happened, or has been forgotten.${elsewhere}`;
}
