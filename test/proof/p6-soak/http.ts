/** One request as a client sends it, and what its reply means for its key. */
import { Agent, request } from "node:http";
import type { Body, ClientReply, KeyName, Route } from "./history.ts";

/** Connections are kept and used again, as clients do; those of the dead break. */
export const agent = new Agent({ keepAlive: true, maxSockets: 64 });

/** What a replay must give as the first answer did, in this order. */
const storedHeaders: ReadonlySet<string> = new Set(["location", "link", "etag", "content-type"]);

interface Reply {
  readonly status: number;
  readonly rawHeaders: readonly string[];
  readonly body: string;
}

const nothing = { execution: null, body: null } as const;

export interface Sending {
  readonly name: KeyName;
  readonly body: Body;
  /** How long the business is to take if it runs; no part of what is asked for. */
  readonly workMs: number;
  readonly timeoutMs: number;
}

export async function submit(url: string, sending: Sending): Promise<ClientReply> {
  try {
    return replyFrom(await post(url, sending), sending.name.route);
  } catch (error) {
    // Nobody was there to hear it.
    const unsent = error instanceof Error && Reflect.get(error, "code") === "ECONNREFUSED";
    return { answered: { kind: unsent ? "retryable" : "doubt" }, status: 0, ...nothing };
  }
}

function post(url: string, { name, body, workMs, timeoutMs }: Sending): Promise<Reply> {
  const { route, tenant, key } = name;
  const bytes = JSON.stringify({ kind: "order", body });
  const headers = {
    "content-type": "application/json",
    "content-length": bytes.length,
    "x-tenant": tenant,
    "x-work-ms": String(workMs),
    "idempotency-key": key,
  };
  return new Promise((resolve, reject) => {
    const sent = request(`${url}/${route}`, { method: "POST", agent, headers }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => {
        text += chunk;
      });
      response.on("end", () => {
        clearTimeout(timer);
        resolve({ status: response.statusCode ?? 0, rawHeaders: response.rawHeaders, body: text });
      });
      response.on("error", reject);
    });
    const timer = setTimeout(() => sent.destroy(new Error("the client gave up")), timeoutMs);
    sent.on("error", (error) => {
      clearTimeout(timer);
      reject(error);
    });
    sent.end(bytes);
  });
}

/** @throws {Error} for a reply that no server of ours gives */
function replyFrom({ status, rawHeaders, body }: Reply, route: Route): ClientReply {
  const lines = linesOf(rawHeaders);
  const content = JSON.parse(body) as {
    readonly code?: string;
    readonly execution?: string;
    readonly body?: Body;
  };
  if (status === 201) {
    const replayed = lines.some(([name]) => name === "idempotent-replayed");
    const kept = lines.filter(([name]) => storedHeaders.has(name));
    const answer = JSON.stringify([status, kept, body]);
    return {
      answered: { kind: replayed ? "replay" : "executed", answer },
      status,
      execution: content.execution ?? null,
      body: content.body ?? null,
    };
  }
  if (status === 202) return { answered: { kind: "accepted" }, status, ...nothing };
  if (status === 500) {
    // What a transaction's handler throws was rolled back; under a lease it is not known.
    const undone = content.execution !== undefined && (route === "pay" || route === "order");
    return {
      answered: { kind: undone ? "retryable" : "doubt" },
      status,
      execution: content.execution ?? null,
      body: null,
    };
  }
  return { answered: answeredOf(content.code, status), status, ...nothing };
}

function answeredOf(code: string | undefined, status: number): ClientReply["answered"] {
  switch (code) {
    case "in-progress":
      return { kind: "in_progress" };
    case "key-misuse":
      return { kind: "misuse" };
    case "outcome-unknown":
      return { kind: "unknown" };
    case "commit-in-doubt":
    case "store-unavailable":
      return { kind: "doubt" };
    default:
      throw new Error(`an answer that nobody gives here: ${status} ${code}`);
  }
}

function linesOf(raw: readonly string[]): readonly (readonly [name: string, value: string])[] {
  return raw.flatMap((name, at) => (at % 2 === 0 ? [[name.toLowerCase(), raw[at + 1] ?? ""] as const] : []));
}
