/** The `curl` lines of documents, sent with Node's own client: the machine may have no curl. */
import { request } from "node:http";

export interface CurlCall {
  readonly url: string;
  readonly method: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: string | undefined;
  /** It ended with `&`. */
  readonly inBackground: boolean;
}

export interface CurlAnswer {
  /** As `curl -i` prints it. */
  readonly statusLine: string;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

/** The words of a command line, as a shell without expansions reads it. */
export function wordsOf(command: string): string[] {
  return [...command.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/gu)].map(
    ([, single, double, bare]) => single ?? double ?? bare ?? "",
  );
}

/**
 * Reads what comes after `curl`.
 *
 * @param base what stands for `localhost:3000`
 * @throws {Error} for an option that is not known here
 */
export function readCurl(args: readonly string[], base: string): CurlCall {
  const headers: (readonly [string, string])[] = [];
  let url = "";
  let body: string | undefined;
  let method: string | undefined;
  let inBackground = false;
  for (let index = 0; index < args.length; index++) {
    const word = args[index] ?? "";
    const next = () => args[++index] ?? "";
    if (word === "&") inBackground = true;
    else if (word === "-H") headers.push(headerOf(next()));
    else if (word === "-d") body = next();
    else if (word === "-X") method = next();
    else if (word === "-i") continue;
    else if (word.startsWith("-")) throw new Error(`curl ${word} is not known here`);
    else url = word.replace(/^(?:http:\/\/)?localhost:3000/u, base);
  }
  return { url, method: method ?? (body === undefined ? "GET" : "POST"), headers, body, inBackground };
}

function headerOf(text: string): readonly [string, string] {
  const at = text.indexOf(":");
  return [text.slice(0, at), text.slice(at + 1).trim()];
}

/** Sends it on a connection of its own. */
export function sendCurl({ url, method, headers, body }: CurlCall): Promise<CurlAnswer> {
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { method, agent: false, headers: Object.fromEntries(headers) });
    outgoing.on("error", reject);
    outgoing.on("response", (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk)).on("error", reject);
      response.on("end", () => {
        const { statusCode, statusMessage } = response;
        const lines = Object.entries(response.headers).map(([name, value]) => [name, String(value)] as const);
        resolve({
          statusLine: `HTTP/1.1 ${statusCode} ${statusMessage}`,
          headers: new Map(lines),
          body: Buffer.concat(chunks).toString("utf8"),
        });
      });
    });
    outgoing.end(body);
  });
}
