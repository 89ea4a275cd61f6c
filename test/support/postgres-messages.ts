/** Splits a PostgreSQL connection's two byte streams into protocol messages (protocol 3, without TLS). */

export interface FrontendMessage {
  readonly direction: "up";
  /** The protocol's letter (`Q`, `P`, `B`, `E`, `S`, `X`, …), or what an untyped first message is. */
  readonly type: string;
  readonly bytes: Buffer;
  /** SQL text of a simple query, and of the statement that a Parse, Bind or Execute is about. */
  readonly sql?: string;
  /** Name of the prepared statement that a Parse or Bind names. */
  readonly statement?: string;
}

export interface BackendMessage {
  readonly direction: "down";
  /** The protocol's letter (`C` command complete, `Z` ready for query, `E` error, `N` notice, …). */
  readonly type: string;
  readonly bytes: Buffer;
  /** Command tag of a `C`, e.g. "COMMIT" or "INSERT 0 1". */
  readonly tag?: string;
  /** SQLSTATE of an `E` or `N`. */
  readonly code?: string;
}

export interface PostgresSplitter {
  /** Complete messages; the beginning of an incomplete one waits for the rest. */
  up(chunk: Buffer): FrontendMessage[];
  down(chunk: Buffer): BackendMessage[];
}

const SSL_REQUEST = 80_877_103;
const GSS_REQUEST = 80_877_104;
const CANCEL_REQUEST = 80_877_102;

/** True for COMMIT or END: a simple query, or the first message that names it in the extended protocol. */
export function isCommit(message: FrontendMessage): boolean {
  return /^\s*(commit|end)\b/i.test(message.sql ?? "");
}

/** True for the server's confirmation of a COMMIT. */
export function isCommitReply(message: BackendMessage): boolean {
  return message.tag === "COMMIT";
}

/** One splitter per connection: a statement's name is looked up in the Parse messages that went before. */
export function postgresSplitter(): PostgresSplitter {
  const up = new ByteQueue();
  const down = new ByteQueue();
  const statements = new Map<string, string>();
  const portals = new Map<string, string>();
  let started = false;
  /** Replies of a single byte that the server still owes (to SSL and GSS requests). */
  let oneByteReplies = 0;

  const readFirst = (bytes: Buffer): FrontendMessage => {
    const code = bytes.readInt32BE(4);
    if (code === SSL_REQUEST || code === GSS_REQUEST) oneByteReplies += 1;
    else started = true;
    const type = code === CANCEL_REQUEST ? "cancel" : started ? "startup" : "encryption";
    return { direction: "up", type, bytes };
  };

  const read = (bytes: Buffer): FrontendMessage => {
    const type = String.fromCharCode(bytes[0] ?? 0);
    const message = { direction: "up", type, bytes } as const;
    if (!"QPBE".includes(type)) return message;
    const [first = "", second = ""] = strings(bytes, 2);
    if (type === "Q") return { ...message, sql: first };
    if (type === "P") {
      statements.set(first, second);
      return { ...message, sql: second, statement: first };
    }
    if (type === "E") return { ...message, sql: portals.get(first) ?? "" };
    const sql = statements.get(second) ?? "";
    portals.set(first, sql);
    return { ...message, sql, statement: second };
  };

  const readDown = (bytes: Buffer): BackendMessage => {
    const type = String.fromCharCode(bytes[0] ?? 0);
    const message = { direction: "down", type, bytes } as const;
    if (type === "C") return { ...message, tag: strings(bytes, 1)[0] ?? "" };
    if (type !== "E" && type !== "N") return message;
    const code = strings(bytes).find((field) => field.startsWith("C"));
    return code ? { ...message, code: code.slice(1) } : message;
  };

  return {
    up(chunk) {
      up.push(chunk);
      const messages: FrontendMessage[] = [];
      for (;;) {
        const bytes = up.take(started ? 1 : 0);
        if (!bytes) return messages;
        messages.push(started ? read(bytes) : readFirst(bytes));
      }
    },
    down(chunk) {
      down.push(chunk);
      const messages: BackendMessage[] = [];
      for (;;) {
        const single = oneByteReplies > 0;
        const bytes = single ? down.takeByte() : down.take(1);
        if (!bytes) return messages;
        if (single) oneByteReplies -= 1;
        messages.push(single ? { direction: "down", type: "encryption", bytes } : readDown(bytes));
      }
    },
  };
}

/** The first `count` NUL-terminated strings after a message's head (in an error a string begins with its code). */
function strings(bytes: Buffer, count = Number.POSITIVE_INFINITY): string[] {
  const found: string[] = [];
  for (let start = 5; found.length < count; ) {
    const end = bytes.indexOf(0, start);
    if (end < 0) break;
    found.push(bytes.toString("utf8", start, end));
    start = end + 1;
  }
  return found;
}

class ByteQueue {
  #bytes: Buffer = Buffer.alloc(0);

  push(chunk: Buffer): void {
    this.#bytes = this.#bytes.length === 0 ? chunk : Buffer.concat([this.#bytes, chunk]);
  }

  /** A whole message whose length field starts at `lengthAt`; the field counts itself and what follows. */
  take(lengthAt: 0 | 1): Buffer | undefined {
    if (this.#bytes.length < lengthAt + 4) return undefined;
    return this.#cut(lengthAt + this.#bytes.readInt32BE(lengthAt));
  }

  takeByte(): Buffer | undefined {
    return this.#cut(1);
  }

  #cut(length: number): Buffer | undefined {
    if (this.#bytes.length < length) return undefined;
    const head = this.#bytes.subarray(0, length);
    this.#bytes = this.#bytes.subarray(length);
    return head;
  }
}
