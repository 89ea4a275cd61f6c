/** The terminals of somebody who follows a document: which are open, which are busy, and which variables each has. */
import { randomBytes } from "node:crypto";
import type { WorkerProcess } from "../support/processes.ts";

interface Terminal {
  readonly variables: Map<string, string>;
  busyWith: WorkerProcess | null;
}

const ordinals = ["first", "second", "third"] as const;

export class Terminals {
  readonly #open: Terminal[] = [newTerminal()];
  /** What stands for variables that the document can only give an example of. */
  readonly #real: Readonly<Record<string, string>>;

  constructor(real: Readonly<Record<string, string>>) {
    this.#real = real;
  }

  /** Opens those that the prose names. */
  listen(prose: string): void {
    for (const [index, ordinal] of ordinals.entries()) {
      const isNamed = new RegExp(`${ordinal} terminal`, "iu").test(prose);
      if (isNamed && index > this.#open.length)
        throw new Error(`nobody has opened the one before the ${ordinal}`);
      if (isNamed && index === this.#open.length) this.#open.push(newTerminal());
    }
  }

  /** Where something is started that keeps its terminal: in the first that is free. */
  start(worker: WorkerProcess): void {
    this.#freeOne("first").busyWith = worker;
  }

  end(worker: WorkerProcess): void {
    for (const terminal of this.#open) if (terminal.busyWith === worker) terminal.busyWith = null;
  }

  /** `NAME=value`, typed into the terminal that was opened last. */
  export(assignment: string): void {
    const [, name = "", example = ""] = /^([A-Z_]+)=(.+)$/u.exec(assignment) ?? [];
    if (name === "") throw new Error(`no assignment: ${assignment}`);
    this.#freeOne("last").variables.set(name, this.#real[name] ?? expanded(example));
  }

  /**
   * The variables of the terminal in which a command is typed.
   *
   * @throws {Error} when every terminal is busy, or lacks one that the command needs
   */
  variables(which: "first" | "last", needed: readonly string[]): Readonly<Record<string, string>> {
    const { variables } = this.#freeOne(which);
    const missing = needed.find((name) => !variables.has(name));
    if (missing !== undefined) throw new Error(`${missing} is not set in the terminal that is used here`);
    return Object.fromEntries(variables);
  }

  #freeOne(which: "first" | "last"): Terminal {
    const free = this.#open.filter(({ busyWith }) => busyWith === null);
    const one = free.at(which === "first" ? 0 : -1);
    if (one === undefined) throw new Error("the terminal is busy: the text has opened no other one");
    return one;
  }
}

function newTerminal(): Terminal {
  return { variables: new Map(), busyWith: null };
}

/** `$(openssl rand …)` is made here: the machine may have no openssl. */
function expanded(text: string): string {
  const [, form, bytes] = /^\$\(openssl rand -(hex|base64) (\d+)\)$/u.exec(text) ?? [];
  if (form === undefined) return text;
  return randomBytes(Number(bytes)).toString(form === "hex" ? "hex" : "base64");
}
