/** Processes that are made ready ahead of their time, and killed. */

import { spawnWorker, type WorkerLine, type WorkerProcess } from "../../support/processes.ts";
import { startProxy, type TcpProxy } from "../../support/tcp-proxy.ts";
import type { Moment, Port } from "./course.ts";
import { type Plant, plantVariable } from "./plants.ts";
import type { Reply } from "./reply.ts";
import type { ReportedCall, VictimSettings } from "./victim-process.ts";

const script = new URL("./victim-process.ts", import.meta.url);
/** Everything takes milliseconds; a machine that is busy with other tests may take a thousand times that. */
const patienceMs = 60_000;

/** How it ended. */
export type VictimEnd =
  | { readonly kind: "killed"; readonly moment: Moment; readonly port: Port; readonly number: number }
  | {
      readonly kind: "lived";
      readonly calls: readonly ReportedCall[];
      readonly beats: readonly ReportedCall[];
    };

export interface VictimOptions {
  readonly plant: Plant | null;
  /** Where Node keeps what it has compiled: a process is ready in a third of the time. */
  readonly compileCache: string;
}

export class Victim {
  readonly settings: VictimSettings;
  readonly #worker: WorkerProcess;
  /** Null unless what it sends is to arrive late. */
  readonly #proxy: TcpProxy | null;

  /** Use `openVictim`. */
  constructor(settings: VictimSettings, worker: WorkerProcess, proxy: TcpProxy | null) {
    this.settings = settings;
    this.#worker = worker;
    this.#proxy = proxy;
  }

  get name(): string {
    return this.settings.name;
  }

  /** Does its job, to its end. */
  async run(): Promise<VictimEnd> {
    await this.#worker.ready(patienceMs);
    this.#worker.send("go");
    if (this.#proxy !== null) void this.#holdWhenAsked(this.#proxy);
    const ended = this.#worker.line(({ ended: end }) => end !== undefined, patienceMs).catch(() => null);
    const line = await Promise.race([ended, this.#worker.exited.then(() => null)]);
    if (line !== null)
      return { kind: "lived", ...(line.ended as Omit<Extract<VictimEnd, { kind: "lived" }>, "kind">) };
    const { signal } = await this.#worker.exited;
    const dies = this.#worker.lines.find((one) => one.dies !== undefined);
    if (dies === undefined || signal !== "SIGKILL") {
      throw new Error(`${this.name} ended by itself (${signal}): ${this.#worker.stderr()}`);
    }
    return {
      kind: "killed",
      moment: dies.dies as Moment,
      port: dies.port as Port,
      number: Number(dies.number),
    };
  }

  async #holdWhenAsked(proxy: TcpProxy): Promise<void> {
    const asked = await this.#worker.line(({ hold }) => hold === true, patienceMs).catch(() => null);
    if (asked === null) return;
    proxy.stall("up");
    this.#worker.send("held");
  }

  /** What it sent to the server comes now. */
  async arrive(): Promise<void> {
    await this.#proxy?.pass();
  }

  /** Its reply to the client of its job, or to that of an order before. */
  replyTo(what: "job" | "acknowledged"): Reply | null {
    const line = this.#worker.lines.find((one) => one[what] !== undefined);
    return (line?.[what] as Reply | undefined) ?? null;
  }

  /** Steps that it ran, oldest first. */
  ran(): readonly WorkerLine[] {
    return this.#worker.lines.filter(({ ran }) => ran !== undefined);
  }

  /** One that lives ends by itself, and keeps what Node has compiled. */
  async end(): Promise<void> {
    this.#worker.send("end");
    await this.#worker.exited;
    await this.#proxy?.close();
  }

  async stop(): Promise<void> {
    await this.#worker.stop();
    await this.#proxy?.close();
  }
}

export async function openVictim(
  settings: VictimSettings,
  { plant, compileCache }: VictimOptions,
): Promise<Victim> {
  const late = settings.doom?.moment === "late";
  const port = Number(new URL(settings.databaseUrl).port);
  const proxy = late ? await startProxy({ to: { port }, protocol: "bytes" }) : null;
  const databaseUrl = proxy === null ? settings.databaseUrl : proxy.url(settings.databaseUrl);
  const worker = spawnWorker(script, {
    args: [JSON.stringify({ ...settings, databaseUrl })],
    env: { NODE_COMPILE_CACHE: compileCache, [plantVariable]: plant ?? "" },
  });
  return new Victim(settings, worker, proxy);
}
