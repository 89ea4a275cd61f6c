/** Where things are in Redis. */
import { createHash } from "node:crypto";
import type { RecordKey } from "../../engine/record.ts";
import { encodeFields } from "../../fingerprint/length-prefixed.ts";
import { partitionsMax, partitionTags } from "./slots.ts";

/** Characters of a digest: SHA-256 in base64url. */
export const digestLength = 43;

/** Where one record is. */
export interface RedisLocation {
  readonly partition: number;
  /** Replaces (tenant, scope, key) in names of Redis keys, so that these are short, of one form, and reveal nothing. */
  readonly digest: string;
}

/** Names of Redis keys. All of one partition have one hash tag, so they are in one slot. */
export class Layout {
  readonly partitions: number;
  readonly #prefix: string;
  readonly #bases: readonly string[];

  /** @throws {TypeError} when one of them is out of range */
  constructor(prefix: string, partitions: number) {
    if (!/^[^\s{}]{1,64}$/.test(prefix)) {
      throw new TypeError(
        `prefix must be 1 to 64 characters without spaces and braces (got ${JSON.stringify(prefix)})`,
      );
    }
    if (!Number.isSafeInteger(partitions) || partitions < 1 || partitions > partitionsMax) {
      throw new TypeError(`partitions must be a whole number from 1 to ${partitionsMax} (got ${partitions})`);
    }
    this.partitions = partitions;
    this.#prefix = prefix;
    this.#bases = partitionTags(partitions).map((tag) => `${prefix}:{${tag}}`);
  }

  locationOf({ tenant, scope, key }: RecordKey): RedisLocation {
    const hash = createHash("sha256");
    for (const chunk of encodeFields([tenant, scope, key])) hash.update(chunk);
    return this.locationAt(hash.digest("base64url"));
  }

  /** The same from the digest alone. */
  locationAt(digest: string): RedisLocation {
    const first = Buffer.from(digest.slice(0, 6), "base64url").readUInt32BE(0);
    return { partition: first % this.partitions, digest };
  }

  /** KEYS of a script on one record. */
  recordKeys({ partition, digest }: RedisLocation): readonly string[] {
    const base = this.#base(partition);
    return [`${base}:i`, `${base}:l`, `${base}:r:${digest}`, `${base}:s:${digest}`, `${base}:a:${digest}`];
  }

  /** KEYS of a script on the index of a partition. */
  partitionKeys(partition: number): readonly string[] {
    const base = this.#base(partition);
    return [`${base}:i`, `${base}:l`];
  }

  get partitionsKey(): string {
    return `${this.#prefix}:partitions`;
  }

  #base(partition: number): string {
    const base = this.#bases[partition];
    if (base === undefined) throw new TypeError(`there is no partition ${partition}`);
    return base;
  }
}
