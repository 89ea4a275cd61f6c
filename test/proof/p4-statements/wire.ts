/** Postgres's wire protocol, as far as a gate must tell messages apart. */

export interface Message {
  readonly type: string;
  /** The whole message, with its type and its length. */
  readonly bytes: Buffer;
}

const headBytes = 5;

/** Cuts a stream into messages. Messages of a session's start, which have no type, must not go through it. */
export class Frames {
  #rest: Buffer = Buffer.alloc(0);

  push(chunk: Uint8Array): readonly Message[] {
    const given = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    let bytes = this.#rest.length === 0 ? given : Buffer.concat([this.#rest, given]);
    const messages: Message[] = [];
    while (bytes.length >= headBytes) {
      const length = 1 + bytes.readUInt32BE(1);
      if (bytes.length < length) break;
      messages.push({ type: String.fromCharCode(bytes[0] ?? 0), bytes: bytes.subarray(0, length) });
      bytes = bytes.subarray(length);
    }
    this.#rest = Buffer.from(bytes);
    return messages;
  }
}

/** The zero-ended texts at the beginning of a message's body. */
function texts({ bytes }: Message, count: number): readonly string[] {
  const found: string[] = [];
  let at = headBytes;
  for (let index = 0; index < count; index++) {
    const end = bytes.indexOf(0, at);
    if (end < 0) break;
    found.push(bytes.toString("utf8", at, end));
    at = end + 1;
  }
  return found;
}

/** The statement that a Bind is for. */
export function boundStatement(message: Message): string {
  return texts(message, 2)[1] ?? "";
}

export interface Parsed {
  readonly name: string;
  readonly text: string;
}

export function parsedStatement(message: Message): Parsed {
  const [name = "", text = ""] = texts(message, 2);
  return { name, text };
}

/** A Parse that leaves the types of all parameters to the server. */
export function parseMessage({ name, text }: Parsed): Message {
  const body = Buffer.concat([Buffer.from(`${name}\0${text}\0`), Buffer.alloc(2)]);
  const head = Buffer.alloc(headBytes);
  head.write("P");
  head.writeUInt32BE(body.length + 4, 1);
  return { type: "P", bytes: Buffer.concat([head, body]) };
}

export const flushBytes = Buffer.from([72, 0, 0, 0, 4]);

/** The SQLSTATE of an error's message; empty when it has none. */
export function sqlStateOfError({ bytes }: Message): string {
  const fields = bytes.toString("utf8", headBytes).split("\0");
  return fields.find((field) => field.startsWith("C"))?.slice(1) ?? "";
}

/** The process id that the server tells at the beginning. */
export function backendOf({ bytes }: Message): number {
  return bytes.readInt32BE(headBytes);
}

/** What a message "ready for query" says about the transaction. */
export function statusOf({ bytes }: Message): string {
  return String.fromCharCode(bytes[headBytes] ?? 0);
}
