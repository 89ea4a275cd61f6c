/** Which functions of some modules a piece of work enters, by V8's precise coverage of this process. */
import { readFileSync } from "node:fs";
import { type Debugger, type Profiler, Session } from "node:inspector/promises";
import { relative } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { fileURLToPath, pathToFileURL } from "node:url";

export interface EnteredFunction {
  readonly name: string;
  /** In its file, from 1. */
  readonly line: number;
  readonly calls: number;
}

export interface EnteredFile {
  /** Relative to the folder that is watched. */
  readonly path: string;
  /** Each function of the source once, however many closures of it were made; by line. */
  readonly functions: readonly EnteredFunction[];
}

interface Counted {
  readonly url: string;
  readonly scriptId: string;
  readonly name: string;
  /** Node strips types without moving anything: offsets and lines are those of the TypeScript. */
  readonly offset: number;
  readonly end: number;
  calls: number;
}

/** Prepares the work, and returns the part that is traced. */
export type Prepare = () => Promise<() => Promise<unknown>>;

/** Turns of the event loop without a call, after which work counts as ended. */
const quietTurns = 3;
/** Where breakpoints report to: they run in the global scope. */
const reporter = "latchkeyTraceEntered";

/** Counts calls in the modules below one folder. Slows the whole process, because V8 stops inlining. */
export class Coverage {
  readonly #session = new Session();
  readonly #folder: string;
  readonly #texts = new Map<string, string>();

  constructor(folder: string) {
    this.#folder = folder;
  }

  async start(): Promise<void> {
    this.#session.connect();
    await this.#session.post("Profiler.enable");
    await this.#session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  }

  stop(): void {
    this.#session.disconnect();
  }

  /** The files that the work enters, including what it still does after it has resolved. */
  async during(prepare: Prepare): Promise<readonly EnteredFile[]> {
    return this.#filesOf(await this.#count(await prepare()));
  }

  /**
   * The same in the order in which files, and functions in them, are entered first. The work runs twice: to see what it
   * enters, and with a breakpoint in each of those functions, whose condition reports and never stops.
   */
  async inOrder(prepare: Prepare): Promise<readonly EnteredFile[]> {
    const functions = await this.#count(await prepare());
    const firstEntered = await this.#order(functions, await prepare());
    const orderOf = (one: Counted) => firstEntered.get(keyOf(one)) ?? Number.POSITIVE_INFINITY;
    return this.#filesOf(functions.toSorted((left, right) => orderOf(left) - orderOf(right)));
  }

  async #count(work: () => Promise<unknown>): Promise<readonly Counted[]> {
    const all = new Map<string, Counted>();
    // Earlier calls belong to no work.
    await this.#take(new Map());
    await work();
    for (let quiet = 0; quiet < quietTurns; quiet++) {
      if ((await this.#take(all)) > 0) quiet = 0;
      await nextTurn();
    }
    return [...all.values()];
  }

  /** Adds the calls since the last time. Returns their number. */
  async #take(into: Map<string, Counted>): Promise<number> {
    const { result } = await this.#session.post("Profiler.takePreciseCoverage");
    let calls = 0;
    for (const counted of result.flatMap((script) => this.#countedIn(script))) {
      const known = into.get(keyOf(counted));
      if (known) known.calls += counted.calls;
      else into.set(keyOf(counted), counted);
      calls += counted.calls;
    }
    return calls;
  }

  #countedIn({ url, scriptId, functions }: Profiler.ScriptCoverage): readonly Counted[] {
    if (!url.startsWith(`${pathToFileURL(this.#folder).href}/`)) return [];
    return functions.flatMap(({ functionName, ranges: [range] }) => {
      // The module itself is a function of V8, too.
      if (range === undefined || range.count === 0 || range.startOffset === 0) return [];
      const { startOffset: offset, endOffset: end, count: calls } = range;
      return [{ url, scriptId, name: functionName, offset, end, calls }];
    });
  }

  async #order(
    functions: readonly Counted[],
    work: () => Promise<unknown>,
  ): Promise<ReadonlyMap<string, number>> {
    const order = new Map<string, number>();
    const keys = functions.map(keyOf);
    const report = (index: number) => {
      const key = keys[index];
      if (key !== undefined && !order.has(key)) order.set(key, order.size);
      return false;
    };
    Reflect.set(globalThis, reporter, report);
    await this.#session.post("Debugger.enable");
    for (const [index, one] of functions.entries()) await this.#reportFrom(one, index);
    await work();
    await this.#session.post("Debugger.disable");
    Reflect.deleteProperty(globalThis, reporter);
    return order;
  }

  async #reportFrom(one: Counted, index: number): Promise<void> {
    const [start, end] = [this.#place(one, one.offset), this.#place(one, one.end)];
    const { locations } = await this.#session.post("Debugger.getPossibleBreakpoints", { start, end });
    const [location] = locations;
    if (location === undefined) return;
    const condition = `${reporter}(${index})`;
    // Refused where a function begins with another one, at the same place.
    await this.#session.post("Debugger.setBreakpoint", { location, condition }).catch(() => {});
  }

  #place({ url, scriptId }: Counted, offset: number): Debugger.Location {
    const before = this.#textOf(url).slice(0, offset);
    const lineNumber = before.split("\n").length - 1;
    return { scriptId, lineNumber, columnNumber: offset - (before.lastIndexOf("\n") + 1) };
  }

  #filesOf(functions: readonly Counted[]): readonly EnteredFile[] {
    return [...Map.groupBy(functions, ({ url }) => url)].map(([url, inFile]) => ({
      path: relative(this.#folder, fileURLToPath(url)),
      functions: inFile.map((one) => ({
        name: shownName(one.name),
        line: this.#place(one, one.offset).lineNumber + 1,
        calls: one.calls,
      })),
    }));
  }

  #textOf(url: string): string {
    const text = this.#texts.get(url) ?? readFileSync(fileURLToPath(url), "utf8");
    this.#texts.set(url, text);
    return text;
  }
}

function shownName(name: string): string {
  if (name === "") return "(closure)";
  return name === "<instance_members_initializer>" ? "(fields)" : name;
}

function keyOf({ url, offset, end }: Counted): string {
  return `${url} ${offset} ${end}`;
}
