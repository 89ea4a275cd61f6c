/** What the clients saw: an append-only log under one monotonic sequence, of one epoch. */
import type { Answered, Operation } from "../harness/linearizable.ts";

export const routes = ["pay", "order", "grab", "charge", "report"] as const;
export type Route = (typeof routes)[number];

/** Two bodies that ask for different things, so that one key can be used for both. */
export type Body = "a" | "b";

export interface KeyName {
  readonly route: Route;
  readonly tenant: string;
  readonly key: string;
}

/** What a client made of a reply, and what it tells of who ran. */
export interface ClientReply {
  readonly answered: Answered;
  /** Of an answer: who ran the business, as it says itself. Of a handler that threw: who was undone. */
  readonly execution: string | null;
  /** Of an answer: the body that it is about. */
  readonly body: Body | null;
  readonly status: number;
}

export interface Entry extends Operation {
  readonly name: KeyName;
  /** Null: an operator's. */
  readonly body: Body | null;
  readonly server: string;
  readonly reply: ClientReply | null;
}

export function textOfKey({ route, tenant, key }: KeyName): string {
  return `${route}/${tenant}/${key}`;
}

/** One log for all clients, so that its numbers are one observer's sequence. */
export class ClientLog {
  #next = 0;
  readonly #byKey = new Map<string, Entry[]>();

  /** Notes that a request goes out; what is returned notes what came back. */
  begin(name: KeyName, process: string, asked: Operation["asked"], server: string, body: Body | null) {
    const invokedAt = this.#next++;
    const entries = this.#byKey.get(textOfKey(name)) ?? [];
    this.#byKey.set(textOfKey(name), entries);
    const at = entries.length;
    const entry: Entry = {
      process: `${process}#${invokedAt}`,
      asked,
      invokedAt,
      returnedAt: null,
      answered: null,
      name,
      body,
      server,
      reply: null,
    };
    entries.push(entry);
    return (reply: ClientReply): Entry => {
      const ended: Entry = { ...entry, returnedAt: this.#next++, answered: reply.answered, reply };
      entries[at] = ended;
      return ended;
    };
  }

  get size(): number {
    return this.#next;
  }

  keys(): readonly KeyName[] {
    return [...this.#byKey.values()].flatMap(([first]) => (first === undefined ? [] : [first.name]));
  }

  of(name: KeyName): readonly Entry[] {
    return this.#byKey.get(textOfKey(name)) ?? [];
  }
}

export function isAnswer(answered: Answered | null | undefined): answered is Answered & { answer: string } {
  return answered?.kind === "executed" || answered?.kind === "replay";
}

/** One line for a person. */
export function lineOf({ process, invokedAt, returnedAt, asked, server, body, reply }: Entry): string {
  const what = asked.kind === "submit" ? `submit ${body}` : JSON.stringify(asked);
  const came = reply === null ? "nothing" : `${reply.status} ${Object.values(reply.answered).join(" ")}`;
  return `[${invokedAt}, ${returnedAt ?? "never"}] ${process} at ${server}: ${what} -> ${came}`;
}
