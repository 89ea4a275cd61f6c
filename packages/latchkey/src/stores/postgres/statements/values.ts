/** Turns the arguments of the store's methods into values for its statements. */
import type { Fence, Fingerprint, Guard, RecordKey } from "../../../engine/record.ts";
import type { Owner } from "../../journal.ts";
import type { NewLife } from "../../life.ts";
import { checkStorable } from "../../storable.ts";
import type { LeaseTerms, Retention } from "../../store.ts";

/** A row of the primary key's index holds at most 2,704 bytes; beyond that an INSERT fails after the handler ran. */
const keyBytesMax = 2_000;

/** Postgres keeps its time-outs in 32 bits. */
const serverTimeoutMaxMs = 2_147_483_647;

/** The most bytes that a UTF-16 code unit takes in UTF-8. */
const bytesPerUnitMax = 3;

/** A time limit as a value for the server's settings. */
export function timeoutText(milliseconds: number): string {
  return String(Math.min(serverTimeoutMaxMs, Math.max(1, Math.ceil(milliseconds))));
}

/** @throws {TypeError} when the key could not be stored, or would be stored as another key */
export function keyValues({ tenant, scope, key }: RecordKey) {
  checkStorable("tenant", tenant);
  checkStorable("scope", scope);
  checkStorable("key", key);
  const short = (tenant.length + scope.length + key.length) * bytesPerUnitMax <= keyBytesMax;
  if (!short && Buffer.byteLength(tenant) + Buffer.byteLength(scope) + Buffer.byteLength(key) > keyBytesMax) {
    throw new TypeError(`tenant, scope and key are longer than ${keyBytesMax} bytes together`);
  }
  return { tenant, scope, key };
}

export function lifeValues(life: NewLife) {
  const { tenant, scope, key } = keyValues(life);
  const { id, fence, fingerprint } = life;
  // Written out: objects that are joined from several take V8 a microsecond each.
  return {
    tenant,
    scope,
    key,
    id,
    attempt: fence.attempt,
    token: fence.token,
    fingerprint_version: fingerprint.version,
    fingerprint: fingerprint.digest,
    operation: life.operation,
    principal: life.principal,
    input: life.input ?? null,
    addressable: life.addressable ?? false,
    summary: life.summary ?? null,
    trace: life.trace ?? null,
  };
}

export function ownerValues(id: string, fence: Fence) {
  return { id, attempt: fence.attempt, token: fence.token };
}

export function ownerOfValues({ key, id, fence }: Owner) {
  return { ...keyValues(key), ...ownerValues(id, fence) };
}

export function fingerprintValues({ version, digest }: Fingerprint) {
  return { fingerprint_version: version, fingerprint: digest };
}

/** Without a guard the values equal nothing, so a row that exists is never overwritten. */
export function guardValues(guard: Guard | null) {
  return {
    guard_id: guard?.id ?? null,
    guard_state: guard?.state ?? null,
    guard_attempt: guard?.fence.attempt ?? null,
    guard_token: guard?.fence.token ?? null,
  };
}

export function leaseValues(terms: LeaseTerms) {
  return {
    lease_ms: terms.leaseMs,
    lease_end: terms.leaseEnd,
    attempts_max: terms.attemptsMax,
    expires_after_ms: terms.abandonAfterMs,
  };
}

/** @throws {TypeError} when a key would be forgotten before its answer */
export function retentionValues({ retentionMs, forgetAfterMs }: Retention) {
  if (forgetAfterMs < retentionMs) throw new TypeError("forgetAfterMs must not be shorter than retentionMs");
  return { retention_ms: retentionMs, forget_after_ms: forgetAfterMs };
}
