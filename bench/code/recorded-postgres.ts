/** Connections of `pg` that answer by themselves what Postgres has answered to the same messages before. */
import { Socket } from "node:net";
import { Duplex } from "node:stream";

const recorded = new Map<string, Buffer>();
let live = true;

/** From here on nothing is sent to Postgres any more. */
export function answerFromRecords(): void {
  live = false;
}

export class RecordedStream extends Duplex {
  readonly #socket = new Socket();
  #messages = "";
  #answer: Buffer[] = [];
  #started = false;

  constructor() {
    super();
    this.#socket.on("connect", () => this.emit("connect"));
    this.#socket.on("data", (data: Buffer) => {
      this.push(data);
      this.#answer.push(data);
      if (!endsReady(data)) return;
      if (this.#started) recorded.set(this.#messages, Buffer.concat(this.#answer));
      this.#started = true;
      this.#messages = "";
      this.#answer = [];
    });
    this.#socket.on("error", (error) => this.destroy(error));
  }

  connect(port: number, host: string): this {
    this.#socket.connect(port, host);
    return this;
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.#take(chunk);
    done();
  }

  override _writev(chunks: { chunk: Buffer }[], done: () => void): void {
    for (const { chunk } of chunks) this.#take(chunk);
    done();
  }

  #take(chunk: Buffer): void {
    if (!this.#started) {
      this.#socket.write(chunk);
      return;
    }
    this.#messages += namesOf(chunk);
    if (live) {
      this.#socket.write(chunk);
      return;
    }
    if (!this.#messages.endsWith("S;") && !this.#messages.endsWith("Q;")) return;
    const answer = recorded.get(this.#messages);
    if (answer === undefined) { console.error(`Nothing is recorded for ${this.#messages}`); process.exit(1); }
    this.#messages = "";
    // In a turn of its own, as from a socket.
    setImmediate(() => this.push(answer));
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

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#socket.destroy();
    done(error);
  }
}

/** ReadyForQuery is the last message of every answer: `Z`, length 5, a status. */
function endsReady(data: Buffer): boolean {
  const at = data.length - 6;
  return at >= 0 && data[at] === 0x5a && data.readInt32BE(at + 1) === 5;
}

/** The messages of a flight by their types, with the texts and names of statements: values do not change an answer here. */
function namesOf(chunk: Buffer): string {
  let names = "";
  for (let at = 0; at < chunk.length; ) {
    const type = String.fromCharCode(chunk[at] ?? 0);
    const next = at + 1 + chunk.readInt32BE(at + 1);
    const body = chunk.subarray(at + 5, next);
    if (type === "Q") names += body.toString("latin1");
    else if (type === "P") names += body.toString("latin1");
    else if (type === "B") {
      const portal = body.indexOf(0);
      names += body.subarray(portal + 1, body.indexOf(0, portal + 1)).toString("latin1");
    }
    names += `${type};`;
    at = next;
  }
  return names;
}
