/** A server of our own: a process with its files, which can be killed, frozen and started again. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { endTree, freezeProcess, identify, killTree, thawProcess } from "./process-tree.ts";
import { onRelease } from "./resources.ts";
import { serverUser } from "./scratch.ts";
import { until, within } from "./until.ts";
import { watchDirectory, watchProcess } from "./watchdog.ts";

export interface ServerPlace {
  readonly folder: string;
  readonly port: number;
}

export interface PrivateServerRecipe {
  readonly name: string;
  /** Before every start. */
  prepare(place: ServerPlace): Promise<{ readonly args: string[]; readonly env: Record<string, string> }>;
  url(place: ServerPlace): string;
  /** Rejects or returns false until it accepts clients. */
  answers(url: string): Promise<boolean>;
}

const startTimeoutMs = 90_000;
const exitTimeoutMs = 20_000;

export class PrivateServer<R extends PrivateServerRecipe = PrivateServerRecipe> {
  readonly url: string;
  protected readonly recipe: R;
  readonly #program: string;
  protected readonly place: ServerPlace;
  readonly #endings: readonly (() => void)[];
  #child: ChildProcess | undefined;

  constructor(recipe: R, program: string, place: ServerPlace) {
    this.recipe = recipe;
    this.#program = program;
    this.place = place;
    this.url = recipe.url(place);
    this.#endings = [watchDirectory(place.folder), onRelease(() => this.stop())];
  }

  /** Where it keeps its files. */
  get folder(): string {
    return this.place.folder;
  }

  log(): string {
    return readFileSync(join(this.folder, "log"), "utf8");
  }

  /** Starts it on its files and waits until it takes clients. */
  async start(): Promise<void> {
    const child = await this.#spawn();
    const { name, answers } = this.recipe;
    const options = { what: `${name} takes clients`, timeoutMs: startTimeoutMs };
    const failure = await until(() => child.exitCode !== null || answers(this.url), options).then(
      () => (child.exitCode === null ? null : "it exited"),
      String,
    );
    if (failure === null) return;
    const log = this.log();
    await this.stop();
    throw new Error(`${name} did not start: ${failure}\n${log}`);
  }

  /** SIGKILL; returns when it is gone. */
  async kill9(): Promise<void> {
    await this.#ending((pid) => killTree(identify(pid)));
  }

  /** SIGSTOP; returns a function that continues it. */
  async freeze(): Promise<() => void> {
    const pid = this.#child?.pid;
    if (!pid) throw new Error("the server is not running");
    await freezeProcess(pid);
    return () => thawProcess(pid);
  }

  async restart(): Promise<void> {
    await this.kill9();
    await this.start();
  }

  /** Ends it for good and removes its files. */
  async stop(): Promise<void> {
    await this.#ending((pid) => endTree(identify(pid), "SIGTERM"));
    await rm(this.place.folder, { recursive: true, force: true, maxRetries: 5 });
    for (const end of this.#endings) end();
  }

  async #spawn(): Promise<ChildProcess> {
    const { folder } = this.place;
    const { args, env } = await this.recipe.prepare(this.place);
    const log = openSync(join(folder, "log"), "a");
    const user = serverUser();
    const child = spawn(this.#program, args, {
      ...(user && { uid: user.uid, gid: user.gid }),
      cwd: folder,
      env: { PATH: process.env.PATH, HOME: folder, LC_ALL: "C.UTF-8", ...env },
      stdio: ["ignore", log, log],
      detached: true,
    });
    closeSync(log);
    child.on("error", () => {});
    if (!child.pid) throw new Error(`could not start ${this.#program}`);
    const forget = watchProcess(child.pid);
    child.unref();
    child.once("exit", () => {
      forget();
      this.#child = undefined;
    });
    this.#child = child;
    return child;
  }

  async #ending(end: (pid: number) => Promise<void>): Promise<void> {
    const child = this.#child;
    if (!child?.pid) return;
    child.ref();
    const exited = once(child, "exit");
    await end(child.pid);
    await within(exited, `${this.recipe.name} exits`, exitTimeoutMs);
  }
}
