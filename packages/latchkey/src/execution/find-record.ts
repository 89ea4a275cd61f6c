/** Finds the record that a webhook, an operator or a command names. */
import { recordIdOf } from "../effects/downstream-key.ts";
import type { LatchkeyRecord, RecordKey } from "../engine/record.ts";
import { MAX_KEY_LENGTH, parseKey } from "../key/parse-key.ts";
import type { OutboxEffect } from "../stores/outbox.ts";
import { isStorable } from "../stores/storable.ts";
import type { Store } from "../stores/store.ts";
import { isPathScope, originForm, scopeOfPath, scopePath } from "./scope.ts";

/** Names a record by what the client sent. */
export interface ClientsName {
  readonly tenant: string;
  /** The operation's name. */
  readonly operation: string;
  /**
   * The key as the client sent it, quoted or bare; as passed to `latchkey.run`; or as the store has it, which under
   * `keySecret` is its hash: `attempt.record.key`.
   */
  readonly key: string;
  /**
   * Under `keyScope: "path"`: the path of the request, as the client sent it; a query is ignored. Default: a key without a path;
   * with a record's id or a downstream key, any path.
   */
  readonly path?: string;
}

/** Names one life of a key by the record's id, which handlers know as `attempt.id`. */
export interface LifesName {
  readonly recordId: string;
}

/** Names one generation of one call, and so one life of a key, by the downstream key. */
export interface CallsName {
  readonly downstreamKey: string;
}

/** Names one life of a key. Further members must match it. */
export type LifeName = ((LifesName & Partial<CallsName>) | (CallsName & Partial<LifesName>)) &
  (ClientsName | { readonly tenant?: string; readonly operation?: string; readonly key?: never });

export type RecordName =
  | LifeName
  | (ClientsName & { readonly recordId?: never; readonly downstreamKey?: never });

export interface FoundRecord {
  readonly kind: "record";
  readonly key: RecordKey;
  readonly record: LatchkeyRecord;
  /** The store's time when it was read. */
  readonly now: number;
  /** The effect in its outbox that the downstream key names; null if the key names a call, or there is no downstream key. */
  readonly effect: OutboxEffect | null;
}

export type Found =
  | FoundRecord
  /** An effect in the outbox that has outlived its record. */
  | { readonly kind: "effect"; readonly effect: OutboxEffect }
  /** The downstream key belongs to this record, but to none of its current calls and effects. */
  | { readonly kind: "no_such_call"; readonly record: LatchkeyRecord }
  /** The key's record has another life than the named one. */
  | { readonly kind: "other_life"; readonly record: LatchkeyRecord }
  /** Several records have the client's key; use an id instead. */
  | { readonly kind: "ambiguous"; readonly recordIds: readonly string[] }
  | { readonly kind: "not_found" };

export interface Finder {
  readonly store: Pick<Store<never>, "read" | "readById" | "journal" | "outbox">;
  /** Returns a client's key as it is stored. */
  readonly storedKey: (sent: RecordKey) => RecordKey;
}

const notFound = { kind: "not_found" } as const;

/** @throws {TypeError} for a client's key without its tenant or operation, or a path without a key. */
export async function findRecord(finder: Finder, name: RecordName): Promise<Found> {
  const { recordId, downstreamKey, tenant, operation, key, path }: AnyName = name;
  if (key !== undefined) {
    if (tenant === undefined || operation === undefined) {
      throw new TypeError("A client's key names a record only with its `tenant` and `operation`");
    }
    const named = path === undefined ? { tenant, operation, key } : { tenant, operation, key, path };
    return findByKey(finder, named, recordId, downstreamKey);
  }
  if (path !== undefined) throw new TypeError("A path names a record only with a client's `key`");
  const found =
    downstreamKey === undefined ? await findLife(finder, recordId) : await findCall(finder, downstreamKey);
  if (found.kind === "not_found" || found.kind === "ambiguous") return found;
  const life = placeOf(found);
  const fits =
    (recordId ?? life.id) === life.id &&
    (tenant ?? life.tenant) === life.tenant &&
    (operation ?? life.operation) === life.operation;
  return fits ? found : notFound;
}

type AnyName = Partial<ClientsName & LifesName & CallsName>;

function placeOf(found: Exclude<Found, { readonly kind: "not_found" | "ambiguous" }>) {
  if (found.kind === "effect") {
    const { tenant, operation, recordId } = found.effect;
    return { tenant, operation, id: recordId };
  }
  const { tenant, operation, id } = found.record;
  return { tenant, operation, id };
}

async function findLife({ store }: Finder, id: string | undefined): Promise<Found> {
  if (id === undefined || !isRecordId(id)) return notFound;
  const { record, now } = await store.readById(null, id);
  return record === null ? notFound : foundRecord(record, now);
}

async function findCall(finder: Finder, downstreamKey: string): Promise<Found> {
  const { store } = finder;
  const [call] = await store.journal.callsByDownstreamKey([downstreamKey]);
  const effect = call === undefined ? await findEffect(store, downstreamKey) : null;
  const lifeId = call?.recordId ?? recordIdOf(downstreamKey);
  const place = call?.key ?? effect;
  if (lifeId === null) return notFound;
  if (place === null) {
    const life = await findLife(finder, lifeId);
    return life.kind === "record" ? { kind: "no_such_call", record: life.record } : life;
  }
  const { record, now } = await store.read(keyOf(place));
  if (record?.id === lifeId) return { ...foundRecord(record, now), effect };
  if (effect !== null) return { kind: "effect", effect };
  return record === null ? notFound : { kind: "other_life", record };
}

async function findEffect({ outbox }: Finder["store"], downstreamKey: string): Promise<OutboxEffect | null> {
  const recordId = recordIdOf(downstreamKey);
  if (recordId === null || outbox === null) return null;
  const effects = await outbox.ofRecord(recordId);
  return effects.find((effect) => effect.downstreamKey === downstreamKey) ?? null;
}

async function findByKey(
  finder: Finder,
  name: ClientsName,
  recordId: string | undefined,
  downstreamKey: string | undefined,
): Promise<Found> {
  const records = await recordsOf(finder, name);
  const [first, second] = records;
  if (downstreamKey !== undefined) {
    const found = await findCall(finder, downstreamKey);
    if (found.kind === "not_found" || found.kind === "ambiguous") return first ? otherLife(first) : found;
    if (recordId !== undefined && recordId !== placeOf(found).id) return notFound;
    if (isOfKey(finder, name, found.kind === "effect" ? found.effect : found.record)) return found;
    return first === undefined || found.kind === "effect" ? notFound : otherLife(first);
  }
  if (recordId !== undefined) {
    const own = records.find(({ record }) => record.id === recordId);
    if (own !== undefined) return own;
    const found = await findLife(finder, recordId);
    if (found.kind === "record" && isOfKey(finder, name, found.record)) return found;
    return first === undefined ? notFound : otherLife(first);
  }
  if (first === undefined) return notFound;
  return second === undefined
    ? first
    : { kind: "ambiguous", recordIds: records.map(({ record }) => record.id) };
}

function otherLife({ record }: FoundRecord): Found {
  return { kind: "other_life", record };
}

async function recordsOf(finder: Finder, name: ClientsName): Promise<readonly FoundRecord[]> {
  const found: FoundRecord[] = [];
  for (const key of keysOf(finder, name)) {
    const { record, now } = await finder.store.read(key);
    if (record !== null && record.operation === name.operation) found.push(foundRecord(record, now));
  }
  return found;
}

/** Whether a client's key names this record; without a path, of any path. */
function isOfKey(
  finder: Finder,
  name: ClientsName,
  { operation, ...place }: RecordKey & { readonly operation: string },
): boolean {
  if (operation !== name.operation || place.tenant !== name.tenant) return false;
  const isAnyPath = name.path === undefined && isPathScope(operation, place.scope);
  const scopes = isAnyPath ? [place.scope] : scopesOf(name);
  return keysIn(scopes, finder, name).some(({ scope, key }) => scope === place.scope && key === place.key);
}

/**
 * The keys that a record with this name may have. A key of `latchkey.run` may look like a quoted one without being one, and a
 * key that is stored as a hash may be given as the hash.
 */
export function keysOf(finder: Pick<Finder, "storedKey">, name: ClientsName): readonly RecordKey[] {
  return keysIn(scopesOf(name), finder, name);
}

/** Under `keyScope: "tenant"` a record's scope is `*`. */
function scopesOf({ operation, path }: ClientsName): readonly string[] {
  const ofPath = path === undefined ? [] : [scopeOfPath(operation, scopePath(originForm(path)))];
  return [...ofPath, operation, "*"];
}

function keysIn(
  scopes: readonly string[],
  { storedKey }: Pick<Finder, "storedKey">,
  { tenant, key }: ClientsName,
): readonly RecordKey[] {
  const parsed = parseKey([key]);
  const sent = new Set([...(parsed.ok ? [parsed.key] : []), ...(key.length <= MAX_KEY_LENGTH ? [key] : [])]);
  return scopes.flatMap((scope) => {
    const kept = [...sent].map((one) => storedKey({ tenant, scope, key: one }).key);
    return [...new Set([...kept, ...sent])]
      .filter((one) => [tenant, scope, one].every(isStorable))
      .map((one) => ({ tenant, scope, key: one }));
  });
}

function foundRecord(record: LatchkeyRecord, now: number): FoundRecord {
  return { kind: "record", key: keyOf(record), record, now, effect: null };
}

function keyOf({ tenant, scope, key }: RecordKey): RecordKey {
  return { tenant, scope, key };
}

/** Whether it has the form of a record's id. */
export function isRecordId(text: string): boolean {
  return /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/u.test(text);
}
