/** The servers of one epoch, as processes: each has a place, a way to the database of its own, and one life after the other. */
import { spawnWorker, type WorkerLine, type WorkerProcess } from "../../support/processes.ts";
import { startProxy, type TcpProxy } from "../../support/tcp-proxy.ts";
import { type Plant, plantVariable } from "./plants.ts";
import type { Exhaust, Health, ServerSettings } from "./server-process.ts";

const script = new URL("./server-process.ts", import.meta.url);
/** Many processes start at once on a busy machine. */
const patienceMs = 60_000;

export interface PlaceSettings {
  readonly databaseUrl: string;
  readonly databasePort: number;
  readonly downstreamUrl: string;
  readonly leaseMs: number;
  readonly plant: Plant | null;
  /** Where compiled sources are kept for the next life. */
  readonly compileCache: string;
}

const poolMax = 8;

/** A server has ended of itself. */
export class ServerDied extends Error {
  override readonly name = "ServerDied";
}

interface Life {
  readonly name: string;
  readonly process: WorkerProcess;
  port: number | null;
  ended: boolean;
}

/** One place of the fleet. */
export class Place {
  readonly index: number;
  readonly proxy: TcpProxy;
  readonly #settings: PlaceSettings;
  readonly #past: WorkerProcess[] = [];
  #lives = 0;
  #life: Life | null = null;
  #frozen = false;

  /** Use `openPlace`. */
  constructor(index: number, proxy: TcpProxy, settings: PlaceSettings) {
    this.index = index;
    this.proxy = proxy;
    this.#settings = settings;
  }

  /** What its connections are named; null: nobody is there. */
  get name(): string | null {
    return this.#life?.name ?? null;
  }

  get frozen(): boolean {
    return this.#frozen;
  }

  /** Where it answers; null: nobody is there, or not yet. */
  get url(): string | null {
    const port = this.#life?.port ?? null;
    return port === null ? null : `http://127.0.0.1:${port}`;
  }

  /** All lines of its lives. */
  lines(): readonly WorkerLine[] {
    const present = this.#life === null ? [] : [this.#life.process];
    return [...this.#past, ...present].flatMap(({ lines }) => lines);
  }

  async start(): Promise<void> {
    const { databaseUrl, downstreamUrl, leaseMs, plant, compileCache } = this.#settings;
    const name = `soak-${this.index}.${++this.#lives}`;
    const own: ServerSettings = {
      name,
      databaseUrl: this.proxy.url(databaseUrl),
      downstreamUrl,
      leaseMs,
      poolMax,
    };
    const process = spawnWorker(script, {
      args: [JSON.stringify(own)],
      env: { [plantVariable]: plant ?? "", NODE_COMPILE_CACHE: compileCache },
    });
    const life: Life = { name, process, port: null, ended: false };
    const ended = () => {
      life.ended = true;
    };
    process.exited.then(ended, ended);
    this.#life = life;
    const { port } = await process.ready(patienceMs);
    life.port = Number(port);
  }

  /** SIGKILL, and a new life. */
  async kill(): Promise<void> {
    const life = this.#life;
    if (life === null) throw new Error("nobody to kill");
    this.#life = null;
    this.#frozen = false;
    this.#past.push(life.process);
    const exit = await life.process.kill("SIGKILL");
    if (exit.signal !== "SIGKILL") throw new ServerDied(`${life.name} had ended: ${life.process.stderr()}`);
    await this.start();
  }

  /** False: nobody is there. */
  async freeze(): Promise<boolean> {
    if (this.url === null || this.#life === null) return false;
    this.#frozen = true;
    await this.#life.process.freeze();
    return true;
  }

  /** Whoever was frozen goes on, unless he was killed meanwhile. */
  thaw(): void {
    if (!this.#frozen) return;
    this.#frozen = false;
    this.#life?.process.thaw();
  }

  /** Uses up its pool for so long; how many connections it then held. */
  async exhaust(exhaustMs: number): Promise<number> {
    const life = this.#life;
    if (life === null || life.port === null || this.#frozen) return 0;
    const before = life.process.lines.length;
    life.process.send({ exhaustMs } satisfies Exhaust);
    const isDone = (line: WorkerLine) => "exhausted" in line && life.process.lines.indexOf(line) >= before;
    const line = await life.process.line(isDone, exhaustMs + 3_000).catch(() => null);
    return Number(line?.exhausted ?? 0);
  }

  /** @throws {Error} with what it had to say, when it has ended of itself */
  async health(): Promise<Health> {
    if (this.#life?.ended === true)
      throw new ServerDied(`${this.name} has ended: ${this.#life.process.stderr()}`);
    const response = await fetch(`${this.url}/health`, { signal: AbortSignal.timeout(2_000) });
    return (await response.json()) as Health;
  }

  async stop(): Promise<void> {
    await this.#life?.process.stop();
    await this.proxy.close();
  }
}

export async function openPlace(index: number, settings: PlaceSettings): Promise<Place> {
  const proxy = await startProxy({ to: { port: settings.databasePort } });
  const place = new Place(index, proxy, settings);
  await place.start();
  return place;
}
