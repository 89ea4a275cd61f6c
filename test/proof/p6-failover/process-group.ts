/** The clients of a stage, the other side that they send to, and how often they met what must be met. */
import { openReceiver, type Receiver } from "../../faults/outbox-receiver.ts";
import { Client, type ClientOptions } from "./client.ts";
import type { Counts } from "./section.ts";

/** Events of clients, and what they mean for the report. */
const meanings = {
  "commit_in_doubt committed": "COMMIT in doubt resolved to committed",
  "commit_in_doubt rolled_back": "COMMIT in doubt resolved to rolled back",
  "commit_in_doubt in_doubt": "COMMIT in doubt not resolved in time",
  lease_lost: "lease lost",
  attempt_resumed: "attempt resumed after its owner lost it",
  settled: "unknown settled",
  replayed: "answer replayed",
  "threw store-unavailable": "refused while the store was away",
  circuit_opened: "circuit opened",
} as const;

export class ProcessGroup {
  readonly receiver: Receiver;
  readonly clients: readonly Client[];
  /** How far the wall clock of each client is from ours. */
  readonly aheadHours: readonly number[];
  #counted: Counts = {};

  private constructor(receiver: Receiver, clients: readonly Client[], aheadHours: readonly number[]) {
    this.receiver = receiver;
    this.clients = clients;
    this.aheadHours = aheadHours;
  }

  /** All are ready; the first one is also the worker, unless nobody is to be. */
  static async open(
    databaseUrl: string,
    options: readonly Omit<ClientOptions, "databaseUrl" | "receiverUrl">[],
    worker = true,
  ): Promise<ProcessGroup> {
    const receiver = await openReceiver();
    const clients = options.map((one) => new Client({ databaseUrl, receiverUrl: receiver.url, ...one }));
    const aheadHours: number[] = [];
    for (const client of clients) aheadHours.push(await client.ready());
    if (worker) clients[0]?.send({ do: "serve" });
    return new ProcessGroup(receiver, clients, aheadHours);
  }

  names(): readonly string[] {
    return [...new Set(this.clients.map(({ settings }) => settings.name))];
  }

  begin(round: string): void {
    for (const client of this.clients) client.send({ do: "begin", round });
  }

  async untilAnswered(round: string, more: number): Promise<void> {
    await Promise.all(this.clients.map((client) => client.untilAnswered(round, more)));
  }

  async rest(): Promise<void> {
    await Promise.all(this.clients.map((client) => client.rest()));
  }

  /** Keys that have an answer by now. */
  answeredIn(round: string): readonly string[] {
    return [...new Set(this.clients.flatMap((client) => client.acksOf(round).map(({ ack }) => ack)))];
  }

  /** What was met since the last time that this was asked. */
  reached(): Counts {
    const all = Object.fromEntries(
      Object.entries(meanings).map(([event, meaning]) => [
        meaning,
        this.clients.reduce((sum, client) => sum + client.countOf(event), 0),
      ]),
    );
    const before = this.#counted;
    this.#counted = all;
    return Object.fromEntries(
      Object.entries(all).map(([what, count]) => [what, count - (before[what] ?? 0)]),
    );
  }

  async close(): Promise<void> {
    await Promise.all(this.clients.map((client) => client.stop()));
  }
}
