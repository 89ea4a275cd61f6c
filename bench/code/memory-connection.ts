/** A client's connection to an HTTP server in the same process: no kernel, no network. */
import type { Server } from "node:http";
import { Duplex } from "node:stream";

/** The server's end. What it writes is counted, not parsed: every answer to one request is as long as the first. */
class ServerEnd extends Duplex {
  readonly remoteAddress = "127.0.0.1";
  readonly #answered: (bytes: number, data: Buffer) => void;

  constructor(answered: (bytes: number, data: Buffer) => void) {
    super();
    this.#answered = answered;
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.#answered(chunk.byteLength, chunk);
    done();
  }

  override _writev(chunks: { chunk: Buffer; encoding: BufferEncoding }[], done: () => void): void {
    for (const { chunk } of chunks) this.#answered(chunk.byteLength, chunk);
    done();
  }

  setTimeout(): this {
    return this;
  }

  setNoDelay(): this {
    return this;
  }

  setKeepAlive(): this {
    return this;
  }
}

export interface MemoryConnection {
  /** @throws {Error} when the answer is not 2xx */
  request(bytes: Buffer): Promise<void>;
}

export function connect(server: Server, repeats: boolean): MemoryConnection {
  let length: number | null = null;
  let seen: Buffer[] = [];
  let received = 0;
  let waiting: { resolve: () => void; reject: (error: Error) => void } | null = null;
  const end = new ServerEnd((bytes, data) => {
    received += bytes;
    if (length === null) {
      seen.push(data);
      const text = Buffer.concat(seen).toString("latin1");
      const head = text.indexOf("\r\n\r\n");
      const [, announced] = /content-length: (\d+)/iu.exec(text) ?? [];
      if (head < 0 || announced === undefined) return;
      const whole = head + 4 + Number(announced);
      if (text.length < whole) return;
      if (!/^HTTP\/1.1 2/u.test(text)) {
        waiting?.reject(new Error(text));
        return;
      }
      if (repeats) length = whole;
    } else if (received < length) return;
    if (length !== null && received > length)
      waiting?.reject(new Error(`${received} bytes instead of ${length}: ${data}`));
    const { resolve } = waiting!;
    waiting = null;
    resolve();
  });
  server.emit("connection", end);
  return {
    request(bytes) {
      received = 0;
      seen = [];
      return new Promise((resolve, reject) => {
        waiting = { resolve, reject };
        end.push(bytes);
      });
    },
  };
}
