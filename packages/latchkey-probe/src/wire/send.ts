/** One request on its own connection. Redirects are never followed. */
import { type ClientRequest, request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Timing } from "../ports.ts";
import { type Answer, NoAnswer } from "./answer.ts";

export interface WireRequest {
  readonly method: string;
  readonly url: URL;
  /** Field lines in order, without `Host`, `Content-Length` and `Connection`. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Buffer;
}

export interface SendOptions {
  readonly timing: Timing;
  readonly timeoutMs: number;
  readonly answerLimitBytes: number;
  /**
   * All of the request except its last byte is sent at once, and the last byte when this resolves. A request without a body
   * waits completely.
   */
  readonly release?: Promise<void>;
  /** Called when everything up to `release` has left this process. */
  readonly onReady?: () => void;
}

/** @throws {NoAnswer} */
export async function sendRequest(request: WireRequest, options: SendOptions): Promise<Answer> {
  const { timing, timeoutMs } = options;
  const outgoing = open(request);
  const response = answered(outgoing);
  // Awaited below; this only prevents an unhandled rejection.
  response.catch(() => {});
  const unlimit = limit(outgoing, timing, timeoutMs);
  try {
    // A server may answer before it has read everything, and a closed connection ends the wait for the rest.
    await Promise.race([write(outgoing, request.body, options), response]);
    const sentAt = timing.now();
    const incoming = await response;
    const answeredAt = timing.now();
    const body = await readBody(incoming, options.answerLimitBytes);
    return { status: incoming.statusCode ?? 0, lines: linesOf(incoming), body, sentAt, answeredAt };
  } catch (error) {
    throw asNoAnswer(error);
  } finally {
    unlimit();
    outgoing.destroy();
  }
}

export type CutAt = "half" | "sent" | "answer";

/**
 * Sends a request and cuts the connection: in the middle of its body, after all of it was sent, or when the head of the
 * answer has arrived. Returns that head, with an empty body; null if none was awaited.
 *
 * @throws {NoAnswer} if the connection failed before it could be cut
 */
export async function sendAndCut(
  request: WireRequest,
  cutAt: CutAt,
  { timing, timeoutMs }: Pick<SendOptions, "timing" | "timeoutMs">,
): Promise<Answer | null> {
  const outgoing = open(request);
  const response = answered(outgoing);
  response.catch(() => {});
  const unlimit = limit(outgoing, timing, timeoutMs);
  try {
    const { body } = request;
    const part = cutAt === "half" ? body.subarray(0, Math.floor(body.length / 2)) : body;
    await Promise.race([flushed(outgoing, part, cutAt !== "half"), response]);
    if (cutAt !== "answer") return null;
    const sentAt = timing.now();
    const incoming = await response;
    return {
      status: incoming.statusCode ?? 0,
      lines: linesOf(incoming),
      body: Buffer.alloc(0),
      sentAt,
      answeredAt: timing.now(),
    };
  } catch (error) {
    throw asNoAnswer(error);
  } finally {
    unlimit();
    outgoing.destroy();
  }
}

function open({ method, url, headers, body }: WireRequest): ClientRequest {
  const lines = [
    ["Host", url.host],
    ...headers,
    ["Content-Length", String(body.length)],
    ["Connection", "close"],
  ];
  const send = url.protocol === "https:" ? httpsRequest : httpRequest;
  return send(url, { agent: false, method, headers: lines.flat() });
}

function answered(outgoing: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    outgoing.on("response", resolve).on("error", reject);
    outgoing.on("close", () => reject(new NoAnswer("the connection was closed")));
  });
}

function limit(outgoing: ClientRequest, timing: Timing, timeoutMs: number): () => void {
  return timing.after(timeoutMs, () =>
    outgoing.destroy(new NoAnswer(`no answer within ${timeoutMs / 1_000} s`)),
  );
}

async function write(
  outgoing: ClientRequest,
  body: Buffer,
  { release, onReady }: SendOptions,
): Promise<void> {
  if (release === undefined) {
    outgoing.end(body);
    return;
  }
  if (body.length > 0) await flushed(outgoing, body.subarray(0, -1), false);
  onReady?.();
  await release;
  outgoing.end(body.subarray(Math.max(0, body.length - 1)));
}

/** Resolves when the bytes have been passed to the network. */
function flushed(outgoing: ClientRequest, bytes: Buffer, last: boolean): Promise<void> {
  return new Promise((resolve, reject) => {
    outgoing.once("error", reject);
    const done = (error?: Error | null) => (error ? reject(error) : resolve());
    if (last) outgoing.end(bytes, () => done());
    else if (bytes.length > 0) outgoing.write(bytes, done);
    else {
      outgoing.flushHeaders();
      outgoing.once("socket", (socket) => socket.once("connect", () => socket.write("", done)));
    }
  });
}

async function readBody(incoming: IncomingMessage, limitBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of incoming) {
    length += chunk.length;
    if (length > limitBytes) throw new NoAnswer(`the answer has more than ${limitBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function linesOf({ rawHeaders }: IncomingMessage): (readonly [string, string])[] {
  const lines: [string, string][] = [];
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    lines.push([rawHeaders[index]?.toLowerCase() ?? "", rawHeaders[index + 1] ?? ""]);
  }
  return lines;
}

function asNoAnswer(error: unknown): NoAnswer {
  if (error instanceof NoAnswer) return error;
  return new NoAnswer(messageOf(error), { cause: error });
}

/** If a host has two addresses and both refuse the connection, the error has no message, but two errors in it. */
function messageOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(messageOf).join("; ");
  return error instanceof Error ? error.message : String(error);
}
