/** Arguments of scripts. An absent value is an empty text; a value that may itself be empty gets one character in front of it. */
import type { Fence, Guard } from "../../engine/record.ts";
import type { Owner } from "../journal.ts";
import type { Retention } from "../retention.ts";
import type { LeaseTerms } from "../store.ts";
import type { Argument } from "./client.ts";

/** Without a copy: the contract's type is read-only, and the drivers do not write. */
export function bytes(value: Uint8Array): Buffer {
  return Buffer.isBuffer(value) ? value : Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}

export function maybeText(value: string | null): string {
  return value === null ? "" : `=${value}`;
}

export function maybeBytes(value: Uint8Array | null | undefined): Argument {
  return value == null ? "" : Buffer.concat([Buffer.from("="), value]);
}

export function delay(value: number | null): string {
  return value === null ? "" : String(value);
}

export function guardArguments({ id, state, fence }: Guard): readonly string[] {
  return [id, state, String(fence.attempt), fence.token];
}

export function ownerArguments({ id, fence }: Pick<Owner, "id" | "fence">): readonly string[] {
  return [id, ...fenceArguments(fence)];
}

function fenceArguments({ attempt, token }: Fence): readonly string[] {
  return [String(attempt), token];
}

export function termsArguments({
  leaseMs,
  abandonAfterMs,
  leaseEnd,
  attemptsMax,
}: LeaseTerms): readonly string[] {
  return [String(leaseMs), String(abandonAfterMs), leaseEnd, String(attemptsMax)];
}

/** @throws {TypeError} when the key would be forgotten before its answer */
export function retentionArguments({ retentionMs, forgetAfterMs }: Retention): readonly string[] {
  if (forgetAfterMs < retentionMs) throw new TypeError("forgetAfterMs must not be shorter than retentionMs");
  return [String(retentionMs), String(forgetAfterMs)];
}
