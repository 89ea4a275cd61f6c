/**
 * A row of the table `records` in the server's binary format, which no setting of a session changes: the number of
 * columns, then for each its type, its length and its bytes. One function call instead of one per column makes the
 * look-up cheap when it finds nothing, which is nearly always.
 */

/** In the order of the table. Migrations add columns at the end only. */
const columns = [
  "tenant",
  "scope",
  "key",
  "id",
  "operation",
  "state",
  "fingerprint_version",
  "fingerprint",
  "principal",
  "attempt",
  "token",
  "recovery_point",
  "input",
  "answer",
  "response_schema_version",
  "last_error_code",
  "created_at",
  "finished_at",
  "expires_at",
  "forget_at",
  "reconcile_after",
  "reconcile_tries",
  "addressable",
  "summary",
  "trace",
] as const;

/** The columns of the first migration. A schema that is older than this code lacks the later ones. */
const columnsMin = 23;

export type RecordColumn = (typeof columns)[number];

const columnHeadBytes = 8;

export class RecordBytes {
  readonly #columns = new Map<RecordColumn, Buffer>();

  /** @throws {TypeError} when `hex` is not such a row */
  constructor(hex: string) {
    const bytes = Buffer.from(hex, "hex");
    const count = bytes.readInt32BE(0);
    if (count < columnsMin) throw new TypeError("A record was returned with too few columns");
    let at = 4;
    for (const column of columns.slice(0, count)) {
      const length = bytes.readInt32BE(at + 4);
      at += columnHeadBytes;
      if (length < 0) continue;
      this.#columns.set(column, bytes.subarray(at, at + length));
      at += length;
    }
  }

  text(column: RecordColumn): string {
    return this.#present(column).toString();
  }

  nullableText(column: RecordColumn): string | null {
    return this.#columns.get(column)?.toString() ?? null;
  }

  integer(column: RecordColumn): number {
    const bytes = this.#present(column);
    return bytes.readIntBE(0, bytes.length);
  }

  hex(column: RecordColumn): string {
    return this.#present(column).toString("hex");
  }

  bytes(column: RecordColumn): Uint8Array {
    return new Uint8Array(this.#present(column));
  }

  nullableBytes(column: RecordColumn): Uint8Array | null {
    return this.#columns.has(column) ? this.bytes(column) : null;
  }

  moment(column: RecordColumn): number {
    return momentOfBytes(this.#present(column));
  }

  nullableMoment(column: RecordColumn): number | null {
    return this.#columns.has(column) ? this.moment(column) : null;
  }

  #present(column: RecordColumn): Buffer {
    const bytes = this.#columns.get(column);
    if (bytes === undefined) throw new TypeError(`Column ${column} was returned without a value`);
    return bytes;
  }
}

/** The server counts in microseconds from here: 1 January 2000, in milliseconds since the Unix epoch. */
const serverEpochMs = 946_684_800_000;

/** A point in time, in milliseconds since the Unix epoch, rounded down. */
function momentOfBytes(bytes: Buffer): number {
  return momentOf(bytes.readInt32BE(0), bytes.readUInt32BE(4));
}

/** The same eight bytes as 16 digits. */
export function momentOfHex(hex: string): number {
  return momentOf(Number.parseInt(hex.slice(0, 8), 16) | 0, Number.parseInt(hex.slice(8), 16));
}

function momentOf(high: number, low: number): number {
  return serverEpochMs + Math.floor((high * 2 ** 32 + low) / 1_000);
}
