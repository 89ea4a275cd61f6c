/** The other side of the outbox tests: a server inside the test, outside every process that is killed, that forgets nothing. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { onRelease } from "../support/resources.ts";

/** What a send says. `name` is the business's own identity of it: the ledger is judged by that, not by keys. */
export interface Sent {
  readonly name: string;
  /** The downstream key. */
  readonly reference: string;
  readonly pid: number;
  /** The receiver is to recognise a repetition by its reference. */
  readonly deduplicated: boolean;
}

export interface Receipt {
  readonly id: string;
  readonly name: string;
  /** For results that are to be large. */
  readonly padding?: string;
}

export interface Receiver {
  readonly url: string;
  /** Every send that arrived, oldest first. */
  readonly arrivals: readonly Sent[];
  arrivalsOf(name: string): readonly Sent[];
  /** How often it has happened to this name. */
  effectsOf(name: string): number;
  /** From now on what arrives takes effect, and is not answered before `answer`. */
  withhold(): void;
  /** Sends that are not answered yet, of processes that live or not. */
  withheld(): readonly Sent[];
  answer(): void;
}

/** It ends with the test file. */
export async function openReceiver(paddingOf: (name: string) => string | undefined = () => undefined) {
  const ledger = new Ledger(paddingOf);
  const waiting: { readonly sent: Sent; readonly answer: () => void }[] = [];
  let withholds = false;
  const server = createServer(async (req, res) => {
    const { pathname, searchParams } = new URL(req.url ?? "", "http://receiver");
    if (pathname === "/found") return reply(res, 200, ledger.find(searchParams.get("reference") ?? ""));
    const body = await bodyOf(req);
    if (pathname === "/close") return reply(res, 200, ledger.close(String(body.reference)));
    const sent = pathname === "/notifications" ? noticeOf(req, body) : (body as unknown as Sent);
    const receipt = ledger.receive(sent);
    const answer = () => (receipt === null ? reply(res, 409, {}) : reply(res, 201, receipt));
    if (withholds) waiting.push({ sent, answer });
    else answer();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onRelease(() => {
    server.closeAllConnections();
    server.close();
  });
  const receiver: Receiver = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    arrivals: ledger.arrivals,
    arrivalsOf: (name) => ledger.arrivals.filter((sent) => sent.name === name),
    effectsOf: (name) => ledger.effects.get(name) ?? 0,
    withhold() {
      withholds = true;
    },
    withheld: () => waiting.map(({ sent }) => sent),
    answer() {
      withholds = false;
      for (const { answer } of waiting.splice(0)) answer();
    },
  };
  return receiver;
}

class Ledger {
  readonly arrivals: Sent[] = [];
  readonly effects = new Map<string, number>();
  readonly #receipts = new Map<string, Receipt>();
  readonly #closed = new Set<string>();
  readonly #paddingOf: (name: string) => string | undefined;

  constructor(paddingOf: (name: string) => string | undefined) {
    this.#paddingOf = paddingOf;
  }

  /** Looks, decides and writes without a pause. Null: it is closed. */
  receive(sent: Sent): Receipt | null {
    const { name, reference, deduplicated } = sent;
    this.arrivals.push(sent);
    if (this.#closed.has(reference)) return null;
    const known = this.#receipts.get(reference);
    if (deduplicated && known !== undefined) return known;
    this.effects.set(name, (this.effects.get(name) ?? 0) + 1);
    const padding = this.#paddingOf(name);
    const receipt = { id: `r_${this.arrivals.length}`, name, ...(padding !== undefined && { padding }) };
    this.#receipts.set(reference, receipt);
    return receipt;
  }

  find(reference: string): { readonly found: Receipt } | null {
    const found = this.#receipts.get(reference);
    return found === undefined ? null : { found };
  }

  close(reference: string): { readonly closed: true } | { readonly happened: Receipt } {
    const happened = this.#receipts.get(reference);
    if (happened !== undefined) return { happened };
    this.#closed.add(reference);
    return { closed: true };
  }
}

async function bodyOf(req: IncomingMessage): Promise<Record<string, unknown>> {
  return (await json(req)) as Record<string, unknown>;
}

/** What the fixture sends. */
function noticeOf({ headers }: IncomingMessage, { orderId }: Record<string, unknown>): Sent {
  const reference = String(headers["idempotency-key"]);
  return { name: String(orderId), reference, pid: 0, deduplicated: true };
}

function reply(res: ServerResponse, status: number, body: unknown): void {
  res.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}
