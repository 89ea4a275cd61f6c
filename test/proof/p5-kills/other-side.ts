/**
 * The other side of every call and delivery: a server in the process that watches, outside every process that is killed. It
 * has a ledger of its own, and forgets nothing. One line of JSON for each question and each reply.
 */
import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { until } from "../../support/until.ts";

export interface Question {
  readonly ask: "send" | "lookup" | "close";
  /** The downstream key. */
  readonly key: string;
  /** The business's own identity of what is sent: the ledger is judged by that, not by keys. */
  readonly name: string;
  /** The other side is to recognise a repetition by its key. */
  readonly deduplicated: boolean;
  /** Who asks. */
  readonly by: string;
  /** It is under way until `arrive`. */
  readonly late: boolean;
  /** Everything that the effect was given, as JSON. */
  readonly input: string;
}

export interface Receipt {
  readonly id: string;
  readonly name: string;
}

export type Reply =
  | { readonly kind: "receipt"; readonly receipt: Receipt }
  | { readonly kind: "nothing" }
  | { readonly kind: "closed" };

/** A send that has come. */
export interface Arrival {
  readonly key: string;
  readonly name: string;
  readonly by: string;
  readonly input: string;
  readonly late: boolean;
  readonly became: "effect" | "known" | "refused";
}

export class OtherSide {
  /** Oldest first. */
  readonly arrivals: Arrival[] = [];
  readonly #receipts = new Map<string, Receipt>();
  readonly #closed = new Set<string>();
  readonly #underWay: Question[] = [];
  readonly #connected = new Map<Socket, string>();
  readonly #server: Server;

  constructor() {
    this.#server = createServer({ noDelay: true }, (socket) => this.#accept(socket));
  }

  async listen(): Promise<void> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  close(): void {
    for (const socket of this.#connected.keys()) socket.destroy();
    this.#server.close();
  }

  arrivalsOf(name: string): readonly Arrival[] {
    return this.arrivals.filter((arrival) => arrival.name === name);
  }

  effectsOf(name: string): number {
    return this.arrivalsOf(name).filter(({ became }) => became === "effect").length;
  }

  isClosed(key: string): boolean {
    return this.#closed.has(key);
  }

  /** Everything that `by` had sent is here, or under way: its connections have come to their end. */
  async receivedAll(by: string): Promise<void> {
    const isGone = () => ![...this.#connected.values()].includes(by);
    await until(isGone, { what: `the connections of ${by} end`, intervalMs: 1 });
  }

  /** What is under way from `by` comes now; answers how much that is. */
  arrive(by: string): number {
    const those = this.#underWay.filter((question) => question.by === by);
    for (const question of those) {
      this.#underWay.splice(this.#underWay.indexOf(question), 1);
      this.#reply(question);
    }
    return those.length;
  }

  #accept(socket: Socket): void {
    this.#connected.set(socket, "");
    // A process that dies with something unread resets its connection.
    socket.on("error", () => {});
    const lines = createInterface({ input: socket });
    lines.on("error", () => {});
    lines.on("line", (line) => {
      const { id, hello, question } = JSON.parse(line) as { id: number; hello?: string; question?: Question };
      if (hello !== undefined) this.#connected.set(socket, hello);
      if (question === undefined) return;
      if (question.late) this.#underWay.push(question);
      else socket.write(`${JSON.stringify({ id, reply: this.#reply(question) })}\n`);
    });
    // Lines are emitted while their bytes are read, so that none are left.
    socket.on("close", () => this.#connected.delete(socket));
  }

  /** Looks, decides and writes without a pause. */
  #reply(question: Question): Reply {
    const { ask, key } = question;
    const known = this.#receipts.get(key);
    switch (ask) {
      case "send":
        return this.#receive(question, known);
      case "lookup":
        return known === undefined ? { kind: "nothing" } : { kind: "receipt", receipt: known };
      case "close":
        if (known !== undefined) return { kind: "receipt", receipt: known };
        this.#closed.add(key);
        return { kind: "closed" };
      default:
        return ask satisfies never;
    }
  }

  #receive({ key, name, by, input, late, deduplicated }: Question, known: Receipt | undefined): Reply {
    const note = (became: Arrival["became"]) => this.arrivals.push({ key, name, by, input, late, became });
    if (this.#closed.has(key)) {
      note("refused");
      return { kind: "closed" };
    }
    if (deduplicated && known !== undefined) {
      note("known");
      return { kind: "receipt", receipt: known };
    }
    const receipt = { id: `r_${note("effect")}`, name };
    this.#receipts.set(key, receipt);
    return { kind: "receipt", receipt };
  }
}
