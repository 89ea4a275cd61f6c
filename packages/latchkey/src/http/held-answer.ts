/** The answer of one run of a handler, as it comes in through a held response. */
import type { ServerResponse } from "node:http";
import { Writable } from "node:stream";
import { LatchkeyError } from "../errors.ts";
import type { Reply } from "./capture.ts";
import { headLines, readHead } from "./response-head.ts";

export class HeldAnswer {
  /** The error that a second answer was refused with. */
  second: LatchkeyError | null = null;
  /** Takes the body; it finishes as soon as it is ended. */
  readonly stream: Writable;
  readonly #chunks: Buffer[] = [];
  #size = 0;
  #head: Omit<Reply, "body"> | null = null;
  readonly #ended: Promise<void>;

  constructor(limitBytes: number) {
    this.stream = new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        this.#size += chunk.byteLength;
        if (this.#size > limitBytes) return done(new LatchkeyError("answer-too-large"));
        this.#chunks.push(chunk);
        done();
      },
    });
    this.#ended = new Promise((resolve, reject) => {
      this.stream.once("finish", resolve);
      this.stream.on("error", reject);
      this.stream.once("close", () => {
        if (this.stream.writableFinished) return;
        const message = "The handler destroyed its response before it ended";
        reject(new LatchkeyError("answer-missing", { message }));
      });
    });
    this.#ended.catch(() => {});
  }

  get headSent(): boolean {
    return this.#head !== null;
  }

  /** From here on status and headers stand. */
  sendHead(res: ServerResponse): void {
    const head = readHead(res);
    const { statusCode: status, statusMessage: statusText } = head;
    if (!Number.isInteger(status) || status < 100 || status > 999) {
      throw new RangeError(`Invalid status code: ${status}`);
    }
    this.#head = { status, headers: headLines(head), ...(statusText ? { statusText } : {}) };
  }

  /** @throws {LatchkeyError} `answer-twice` once the answer has ended. */
  requireUnended(): void {
    if (!this.stream.writableEnded) return;
    this.second = new LatchkeyError("answer-twice");
    throw this.second;
  }

  /** @throws {Error} Node's own `ERR_HTTP_HEADERS_SENT`, or as `requireUnended` does. */
  requireHeadUnsent(): void {
    this.requireUnended();
    if (this.#head === null) return;
    const error = new Error("Cannot change status or headers after they are sent to the client");
    throw Object.assign(error, { code: "ERR_HTTP_HEADERS_SENT" });
  }

  /**
   * The answer, once it has ended.
   *
   * @throws {LatchkeyError} `answer-too-large`; `answer-missing` when the response was destroyed; or the error that the
   * handler destroyed it with.
   */
  async reply(): Promise<Reply> {
    await this.#ended;
    return { status: 200, headers: [], ...this.#head, body: Buffer.concat(this.#chunks) };
  }
}
