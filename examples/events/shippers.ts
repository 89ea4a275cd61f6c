/** Processes of the shipping service; one that dies is replaced at once, as an orchestrator would. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const script = fileURLToPath(new URL("./shipping.ts", import.meta.url));

export class Shippers {
  readonly #env: NodeJS.ProcessEnv;
  readonly #running = new Set<ChildProcess>();
  #stopping = false;
  deaths = 0;
  duplicates = 0;

  constructor(run: string, urls: { readonly RABBITMQ_URL: string; readonly NATS_URL: string }) {
    this.#env = { ...process.env, ...urls, EVENTS_RUN: run };
  }

  /** Starts one worker, and this number of processes that ship. */
  start(shipping: number): void {
    this.#startOne("worker");
    for (let started = 0; started < shipping; started += 1) this.#startOne("consumer");
  }

  #startOne(part: "worker" | "consumer"): void {
    const child = spawn(process.execPath, [...process.execArgv, script], {
      env: { ...this.#env, SHIPPING_PART: part },
      // The last one is the channel by which it notices that this process has ended.
      stdio: ["ignore", "pipe", "inherit", "ipc"],
    });
    this.#running.add(child);
    if (child.stdout === null) throw new TypeError("The process has no pipe");
    createInterface({ input: child.stdout }).on("line", (line) => {
      if (line === "duplicate") this.duplicates += 1;
    });
    child.once("exit", () => {
      this.#running.delete(child);
      if (this.#stopping) return;
      this.deaths += 1;
      this.#startOne(part);
    });
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    const all = [...this.#running];
    const exits = all.map((child) => once(child, "exit"));
    for (const child of all) child.kill("SIGTERM");
    await Promise.all(exits);
  }
}
