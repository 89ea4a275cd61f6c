/** Turns replies of scripts into values. A reply of another shape is an error, because the client is configured to transform replies. */
import { StoreError } from "../../errors.ts";

export type Bytes = Uint8Array;

export function listOf(reply: unknown): readonly unknown[] {
  if (Array.isArray(reply)) return reply;
  throw strange(reply);
}

export function bytesOf(reply: unknown): Bytes {
  if (reply instanceof Uint8Array) return reply;
  throw strange(reply);
}

export function textOf(reply: unknown): string {
  return Buffer.from(bytesOf(reply)).toString();
}

export function numberOf(reply: unknown): number {
  return Number(textOf(reply));
}

export function nullable<T>(reply: unknown, read: (reply: unknown) => T): T | null {
  return reply === null || reply === undefined ? null : read(reply);
}

function strange(reply: unknown): StoreError {
  return new StoreError("in_doubt", {
    message: `A reply of Redis arrived as ${typeof reply}: the client must not transform replies`,
  });
}
