/**
 * Connections of `pg` that answer from recordings of what Postgres answered to the same statements: what remains is the
 * JavaScript on this side of the socket.
 */
import { Socket } from "node:net";
import { Duplex } from "node:stream";

/** A message of the protocol, with its head: a type, and a length that counts itself. */
interface Message {
  readonly type: string;
  readonly bytes: Buffer;
}

/** The recorded answer to each statement, by the type of the message and the statement's text. */
const recorded = new Map<string, Buffer>();
let live = true;

/** From now on nothing is sent to Postgres. */
export function answerFromRecords(): void {
  live = false;
}

/** Whether Postgres has answered a statement with this in its text. */
export function hasAnswered(part: string): boolean {
  return [...recorded.keys()].some((asked) => asked.includes(part));
}

/** A stream for `pg`'s option `stream`. */
export class RecordedStream extends Duplex {
  readonly #socket = new Socket();
  readonly #statements = new Map<string, string>();
  /** The statement of the last Bind message. */
  #bound = "";
  #asked: string[] = [];
  #given: Message[] = [];
  #started = false;
  #status = "I";

  constructor() {
    super();
    this.#socket.on("connect", () => this.emit("connect"));
    this.#socket.on("error", (error) => this.destroy(error));
    let rest: Buffer = Buffer.alloc(0);
    this.#socket.on("data", (data) => {
      this.push(data);
      const messages = split(Buffer.concat([rest, data]));
      rest = messages.rest;
      this.#given.push(...messages.whole);
      if (this.#given.at(-1)?.type !== "Z") return;
      if (this.#started) this.#record();
      this.#started = true;
      this.#asked = [];
      this.#given = [];
    });
  }

  #record(): void {
    const given = this.#given.values();
    for (const asked of this.#asked) {
      const parts: Buffer[] = [];
      for (const message of given) {
        parts.push(message.bytes);
        if (ends(asked.slice(0, 1)).includes(message.type)) break;
      }
      recorded.set(asked, Buffer.concat(parts));
    }
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.#take(chunk);
    done();
  }

  override _writev(chunks: { chunk: Buffer }[], done: () => void): void {
    for (const { chunk } of chunks) this.#take(chunk);
    done();
  }

  #take(chunk: Buffer): void {
    if (this.#started) for (const message of split(chunk).whole) this.#note(message);
    if (live || !this.#started) {
      this.#socket.write(chunk);
      return;
    }
    const last = this.#asked.at(-1) ?? "";
    if (!last.startsWith("S") && !last.startsWith("Q")) return;
    const answer = Buffer.concat(this.#asked.map((asked) => this.#answerTo(asked)));
    this.#asked = [];
    // In a separate turn of the event loop, as from a socket.
    setImmediate(() => this.push(answer));
  }

  /** Answers depend only on the texts of statements: values do not change them here. */
  #note({ type, bytes }: Message): void {
    const [first = "", second = ""] = bytes.toString("latin1", 5).split("\0", 2);
    if (type === "P") this.#statements.set(first, second);
    if (type === "B") this.#bound = second;
    if (type === "Q") this.#asked.push(type + first);
    else this.#asked.push("ED".includes(type) ? type + this.#statements.get(this.#bound) : type);
  }

  #answerTo(asked: string): Buffer {
    const text = asked.slice(1).toLowerCase();
    if (text.startsWith("begin")) this.#status = "T";
    else if (text.startsWith("commit")) this.#status = "I";
    if (asked === "S") return readyForQuery(this.#status);
    const answer = recorded.get(asked);
    if (answer !== undefined) return answer;
    console.error(`No recorded answer to this statement: ${asked}`);
    process.exit(1);
  }

  connect(port: number, host: string): this {
    this.#socket.connect(port, host);
    return this;
  }

  override _read(): void {}

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#socket.destroy();
    done(error);
  }

  setNoDelay(): this {
    return this;
  }

  setKeepAlive(): this {
    return this;
  }

  ref(): this {
    this.#socket.ref();
    return this;
  }

  unref(): this {
    this.#socket.unref();
    return this;
  }
}

/** The message types that end the answer to a message of this type. */
function ends(type: string): string {
  const types: Readonly<Record<string, string>> = {
    P: "1",
    B: "2",
    C: "3",
    D: "Tn",
    E: "CsI",
    S: "Z",
    Q: "Z",
  };
  return types[type] ?? "Z";
}

function readyForQuery(status: string): Buffer {
  return Buffer.from(["Z".charCodeAt(0), 0, 0, 0, 5, status.charCodeAt(0)]);
}

function split(bytes: Buffer): { readonly whole: readonly Message[]; readonly rest: Buffer } {
  const whole: Message[] = [];
  let at = 0;
  while (at + 5 <= bytes.length) {
    const next = at + 1 + bytes.readInt32BE(at + 1);
    if (next > bytes.length) break;
    whole.push({ type: String.fromCharCode(bytes[at] ?? 0), bytes: bytes.subarray(at, next) });
    at = next;
  }
  return { whole, rest: bytes.subarray(at) };
}
