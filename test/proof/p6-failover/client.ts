/** A client process as the test sees it. Its lines are the log of an observer who knows only the replies to callers. */
import { join } from "node:path";
import { spawnWorker, type WorkerProcess } from "../../support/processes.ts";
import { cacheDirectory } from "../../support/scratch.ts";
import { until } from "../../support/until.ts";
import type { Ack, ClientSettings, Command, KeyOf } from "./client-process.ts";
import type { Mode, Ran } from "./work.ts";

const script = new URL("./client-process.ts", import.meta.url);
/** Longer than a client's own patience, so that it is the client that says which key got no answer. */
const restMs = 120_000;

const defaults = {
  name: "h",
  tenant: "t",
  modes: ["transaction", "lease", "resume"],
  loops: 2,
  plant: null,
  durability: "synced",
  sessionOptions: "",
  pooled: false,
  maxUses: 0,
} as const satisfies Partial<ClientSettings>;

export type ClientOptions = Pick<ClientSettings, "databaseUrl" | "receiverUrl"> &
  Partial<ClientSettings> & {
    /** Variables of its process, e.g. LD_PRELOAD. */
    readonly env?: Readonly<Record<string, string>>;
  };

export class Client {
  readonly worker: WorkerProcess;
  readonly settings: ClientSettings;
  readonly acks: Ack[] = [];
  readonly ran: Ran[] = [];
  /** How often each event came. */
  readonly events = new Map<string, number>();
  #read = 0;

  constructor({ env = {}, ...options }: ClientOptions) {
    this.settings = { ...defaults, ...options };
    // Five processes that load the library: with the cache that is a fifth of the CPU.
    const cache = { NODE_COMPILE_CACHE: join(cacheDirectory(), "compiled") };
    this.worker = spawnWorker(script, { args: [JSON.stringify(this.settings)], env: { ...cache, ...env } });
  }

  /** Answers how many hours its wall clock is ahead. */
  async ready(): Promise<number> {
    const { wallMs } = await this.worker.ready(60_000);
    return (Number(wallMs) - Date.now()) / 3_600_000;
  }

  send(command: Command): void {
    this.worker.send(command);
  }

  /** Takes in its lines. */
  read(): this {
    const { lines } = this.worker;
    for (; this.#read < lines.length; this.#read++) {
      const line = lines[this.#read] ?? {};
      if ("ack" in line) this.acks.push(line as unknown as Ack);
      else if ("ran" in line) this.ran.push(line as unknown as Ran);
      else if ("event" in line) {
        const event = String(line.event);
        this.events.set(event, (this.events.get(event) ?? 0) + 1);
      }
    }
    return this;
  }

  /** Its first answers of one round, in a mode or in all. */
  acksOf(round: string, mode?: Mode): readonly Ack[] {
    const prefix = `${this.settings.name}-${round}-`;
    return this.read().acks.filter(
      (ack) => !ack.again && ack.ack.startsWith(prefix) && (mode === undefined || ack.mode === mode),
    );
  }

  /** Until it has got so many more answers in each of these modes; default: in all of its own. */
  async untilAnswered(
    round: string,
    more: number,
    modes: readonly Mode[] = this.settings.modes,
  ): Promise<void> {
    const before = modes.map((mode) => this.acksOf(round, mode).length);
    const enough = () =>
      modes.every((mode, index) => this.acksOf(round, mode).length >= (before[index] ?? 0) + more);
    await this.#until(enough, `${more} more answers in each of ${modes.join(", ")}`);
  }

  /** Until another observer has seen it. */
  async untilTrue(condition: () => boolean): Promise<void> {
    await this.#until(condition, String(condition));
  }

  /** Until events whose names begin so have come so many times more. */
  async untilReported(event: string, more: number): Promise<void> {
    const before = this.countOf(event);
    await this.#until(() => this.countOf(event) >= before + more, `"${event}" ${more} times more`);
  }

  /** How often events have come whose names begin so. */
  countOf(event: string): number {
    const matching = [...this.read().events].filter(([name]) => name.startsWith(event));
    return matching.reduce((sum, [, count]) => sum + count, 0);
  }

  /** No new keys; until every one that it has begun is answered. */
  async rest(): Promise<void> {
    await this.#ask({ do: "rest" }, "rested");
  }

  /** The answers to these keys when they are submitted once more. */
  async audit(keys: readonly KeyOf[]): Promise<readonly Ack[]> {
    const from = this.acks.length;
    await this.#ask({ do: "audit", keys }, "audited");
    return this.acks.slice(from).filter(({ again }) => again);
  }

  /** The replies when it uses these keys for something else. */
  async misuse(keys: readonly KeyOf[]): Promise<readonly string[]> {
    return (await this.#ask({ do: "misuse", keys }, "misuse")) as readonly string[];
  }

  /** How many connections its pool has out or is asked for. */
  async busy(): Promise<number> {
    return Number(await this.#ask({ do: "count" }, "busy"));
  }

  /** The next line with that name. */
  async #ask(command: Command, name: string): Promise<unknown> {
    const { lines } = this.worker;
    const from = lines.length;
    this.send(command);
    const found = () => lines.slice(from).find((line) => name in line);
    await this.#until(() => found() !== undefined, `it has ${name}`);
    this.read();
    return found()?.[name];
  }

  async #until(condition: () => boolean, what: string): Promise<void> {
    let ended: unknown = null;
    void this.worker.exited.then((exit) => {
      ended = exit;
    });
    await until(() => condition() || ended !== null, { what, timeoutMs: restMs });
    if (!condition()) throw new Error(`client ${this.settings.name} has ended: ${this.worker.stderr()}`);
  }

  stop(): Promise<void> {
    return this.worker.stop();
  }
}
