/**
 * The other side: outside every process that is killed, with a ledger of its own that forgets nothing. It judges by `name`,
 * the business's own identity of a send, and not by keys. While it may misbehave it loses requests and replies.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";
import type { Draw } from "../harness/seeded.ts";

export interface Send {
  readonly name: string;
  /** The downstream key. */
  readonly reference: string;
  /** What is asked for, as text. */
  readonly input: string;
  /** The other side recognises a repetition by its reference. */
  readonly deduplicated: boolean;
  readonly server: string;
}

export interface Receipt {
  readonly id: string;
}

export interface Downstream {
  readonly url: string;
  /** Every send that arrived, oldest first. */
  readonly arrivals: readonly Send[];
  /** How often it has happened, by name. */
  readonly effects: ReadonlyMap<string, number>;
  readonly lost: { requests: number; replies: number };
  /** From now on it answers everything. */
  behave(): void;
  close(): Promise<void>;
}

class Ledger {
  readonly arrivals: Send[] = [];
  readonly effects = new Map<string, number>();
  readonly #receipts = new Map<string, Receipt>();
  readonly #closed = new Set<string>();

  /** Looks, decides and writes without a pause. Null: it is closed. */
  receive(send: Send): Receipt | null {
    this.arrivals.push(send);
    if (this.#closed.has(send.reference)) return null;
    const known = this.#receipts.get(send.reference);
    if (send.deduplicated && known !== undefined) return known;
    this.effects.set(send.name, (this.effects.get(send.name) ?? 0) + 1);
    const receipt = { id: `r_${this.arrivals.length}` };
    this.#receipts.set(send.reference, receipt);
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

export async function openDownstream(draw: Draw): Promise<Downstream> {
  const ledger = new Ledger();
  const lost = { requests: 0, replies: 0 };
  let misbehaves = true;
  const server = createServer((req, res) => {
    answer(req, res).catch(() => res.destroy());
  });
  async function answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(req.url ?? "", "http://downstream");
    if (pathname === "/found") return reply(res, 200, ledger.find(searchParams.get("reference") ?? ""));
    const body = (await json(req)) as Send;
    if (pathname === "/close") return reply(res, 200, ledger.close(body.reference));
    if (misbehaves && draw.oneIn(25)) {
      lost.requests++;
      res.destroy();
      return;
    }
    const receipt = ledger.receive(body);
    // It has happened, and nobody knows yet.
    if (misbehaves && draw.oneIn(3)) await pause(draw.below(150));
    if (misbehaves && draw.oneIn(25)) {
      lost.replies++;
      res.destroy();
    } else reply(res, receipt === null ? 409 : 201, receipt ?? {});
  }
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    arrivals: ledger.arrivals,
    effects: ledger.effects,
    lost,
    behave() {
      misbehaves = false;
    },
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}

function reply(res: ServerResponse, status: number, body: unknown): void {
  res.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}
