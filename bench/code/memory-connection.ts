/** Clients of an HTTP server in the same process: no kernel, no network. */
import type { Server } from "node:http";
import { Duplex } from "node:stream";

/** One client on its own connection. */
export class MemoryConnection {
  readonly #end: ServerEnd;

  constructor(server: Server) {
    this.#end = new ServerEnd();
    server.emit("connection", this.#end);
  }

  /**
   * Sends a request, and waits for the end of its answer.
   *
   * @throws {Error} if it is not 2xx
   */
  async request(bytes: Buffer): Promise<void> {
    const answer = await this.#end.exchange(bytes);
    if (!answer.startsWith("HTTP/1.1 2")) throw new Error(answer);
  }
}

/** The server's end of a connection. */
class ServerEnd extends Duplex {
  readonly remoteAddress = "127.0.0.1";
  #answer = "";
  #answered: ((answer: string) => void) | null = null;

  exchange(request: Buffer): Promise<string> {
    this.#answer = "";
    const { promise, resolve } = Promise.withResolvers<string>();
    this.#answered = resolve;
    this.push(request);
    return promise;
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.#take(chunk);
    done();
  }

  override _writev(chunks: readonly { readonly chunk: Buffer }[], done: () => void): void {
    for (const { chunk } of chunks) this.#take(chunk);
    done();
  }

  #take(chunk: Buffer): void {
    this.#answer += chunk.toString("latin1");
    if (isWhole(this.#answer)) this.#answered?.(this.#answer);
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

/** All answers here have a Content-Length. */
function isWhole(answer: string): boolean {
  const head = answer.indexOf("\r\n\r\n");
  const [, length] = /\r\ncontent-length: (\d+)/iu.exec(answer) ?? [];
  return head >= 0 && answer.length >= head + 4 + Number(length);
}
