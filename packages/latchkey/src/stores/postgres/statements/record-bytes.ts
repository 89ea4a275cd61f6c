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

const placeOf = Object.fromEntries(columns.map((column, place) => [column, place])) as Readonly<
  Record<RecordColumn, number>
>;

const columnHeadBytes = 8;
const momentBytes = 8;

export class RecordBytes {
  readonly #bytes: Buffer;
  /** Where the value of each column begins. */
  readonly #starts: number[] = [];
  /** Negative for null. */
  readonly #lengths: number[] = [];

  /** @throws {TypeError} when `hex` is not such a row */
  constructor(hex: string) {
    const bytes = Buffer.from(hex, "hex");
    const count = bytes.readInt32BE(0);
    if (count < columnsMin) throw new TypeError("A record was returned with too few columns");
    let at = 4;
    for (let place = 0; place < Math.min(count, columns.length); place += 1) {
      const length = bytes.readInt32BE(at + 4);
      at += columnHeadBytes;
      this.#starts.push(at);
      this.#lengths.push(length);
      at += Math.max(0, length);
    }
    this.#bytes = bytes;
  }

  text(column: RecordColumn): string {
    const { start, length } = this.#present(column);
    return this.#bytes.toString("utf8", start, start + length);
  }

  nullableText(column: RecordColumn): string | null {
    return this.#has(column) ? this.text(column) : null;
  }

  integer(column: RecordColumn): number {
    const { start, length } = this.#present(column);
    return this.#bytes.readIntBE(start, length);
  }

  hex(column: RecordColumn): string {
    const { start, length } = this.#present(column);
    return this.#bytes.toString("hex", start, start + length);
  }

  bytes(column: RecordColumn): Uint8Array {
    const { start, length } = this.#present(column);
    return new Uint8Array(this.#bytes.subarray(start, start + length));
  }

  nullableBytes(column: RecordColumn): Uint8Array | null {
    return this.#has(column) ? this.bytes(column) : null;
  }

  moment(column: RecordColumn): number {
    const { start, length } = this.#present(column);
    if (length !== momentBytes) throw new TypeError(`Column ${column} was returned with ${length} bytes`);
    return momentOf(this.#bytes.readInt32BE(start), this.#bytes.readUInt32BE(start + 4));
  }

  nullableMoment(column: RecordColumn): number | null {
    return this.#has(column) ? this.moment(column) : null;
  }

  #has(column: RecordColumn): boolean {
    return (this.#lengths[placeOf[column]] ?? -1) >= 0;
  }

  #present(column: RecordColumn): { readonly start: number; readonly length: number } {
    const place = placeOf[column];
    const start = this.#starts[place] ?? 0;
    const length = this.#lengths[place] ?? -1;
    if (length < 0) throw new TypeError(`Column ${column} was returned without a value`);
    return { start, length };
  }
}

/** The server counts in microseconds from here: 1 January 2000, in milliseconds since the Unix epoch. */
const serverEpochMs = 946_684_800_000;

/** A point in time, in milliseconds since the Unix epoch, rounded down. `hex` is its eight bytes. */
export function momentOfHex(hex: string): number {
  return momentOf(Number.parseInt(hex.slice(0, 8), 16) | 0, Number.parseInt(hex.slice(8), 16));
}

function momentOf(high: number, low: number): number {
  return serverEpochMs + Math.floor((high * 2 ** 32 + low) / 1_000);
}
