/**
 * Whether one order of the calls explains what everybody was told and what is left: the memory store, which makes one call
 * after the other, is the model. A call takes effect between its beginning and its end; one that is in doubt later, or never.
 */
import { sameFence } from "../../../packages/latchkey/src/engine/record.ts";
import { memoryStore } from "../../../packages/latchkey/src/stores/memory.ts";
import { type AnyStore, type Call, type CallResult, observe, onMemory, type PassingStore } from "./calls.ts";
import { ProcessClock } from "./process-ports.ts";
import type { Seen } from "./seen.ts";
import { summaryOfModel, summaryOfSeen, type Watched } from "./summary.ts";

/** So many orders are tried; a scenario has at most some hundred. */
const triesMax = 20_000;

export interface History {
  /** The model's time at the beginning. */
  readonly beginMs: number;
  /** The store's time in the end. */
  readonly endMs: number;
  /** Made before the first choice, one after the other. */
  readonly before: readonly Call[];
  readonly calls: readonly Call[];
  readonly watched: Watched;
}

interface Placed {
  readonly call: Call;
  /** False: it has changed nothing. */
  readonly took: boolean;
}

/** Null: some order explains it. Otherwise what was seen. */
export async function unexplained(history: History, seen: Seen): Promise<string | null> {
  const end = summaryOfSeen(seen, history.endMs);
  const search = new Search(history, end);
  if (await search.from([])) return null;
  const told = history.calls.map(({ name, told: answer }) => `${name}: ${wordsOf(answer)}`);
  return `I14: no order of the calls explains the answers and the end\n    ${told.join("\n    ")}\n    end: ${end}`;
}

class Search {
  readonly #history: History;
  readonly #end: string;
  #tries = 0;

  constructor(history: History, end: string) {
    this.#history = history;
    this.#end = end;
  }

  async from(placed: readonly Placed[]): Promise<boolean> {
    this.#tries += 1;
    if (this.#tries > triesMax) throw new Error("Too many orders to try");
    const { calls } = this.#history;
    const left = calls.filter((call) => !placed.some((one) => one.call === call));
    if (placed.length > 0 || left.length === 0) {
      const holds = await this.#holds(placed, left.length === 0);
      if (!holds || left.length === 0) return holds;
    }
    const first = Math.min(...left.map(({ returned }) => returned));
    const next = left.filter(({ invoked }) => invoked <= first).toSorted((a, b) => a.returned - b.returned);
    for (const call of next) {
      for (const took of this.#ways(call)) {
        if (await this.from([...placed, { call, took }])) return true;
      }
    }
    return false;
  }

  #ways(call: Call): readonly boolean[] {
    const { told, took } = call;
    if (took !== null) return [took];
    if (told === null) return [true, false];
    switch (told.kind) {
      case "failed":
        return told.certainty === "in_doubt" ? [true, false] : [false];
      case "threw":
        return [true];
      case "said":
        if (isInDoubt(told)) return [true, false];
        if (call.rule === "sweep") return [true, false];
        return told.missed && call.rule === "may_miss" && this.#overlaps(call) ? [true, false] : [true];
      default:
        return told satisfies never;
    }
  }

  #overlaps(call: Call): boolean {
    return this.#history.calls.some(
      (other) => other !== call && other.invoked < call.returned && call.invoked < other.returned,
    );
  }

  /** Makes them all on a new model. False: somebody would have been told something else. */
  async #holds(placed: readonly Placed[], isEnd: boolean): Promise<boolean> {
    const { beginMs, before, watched } = this.#history;
    const on = model(beginMs);
    for (const { make } of before) await observe(() => make(on));
    for (const { call, took } of placed) {
      if (!took) continue;
      const { told } = await observe(() => call.make(on));
      if (!isSame(call, told) && !(await outlasts(call, told, on))) return false;
    }
    return !isEnd || (await summaryOfModel(on.store, watched)) === this.#end;
  }
}

function model(beginMs: number): AnyStore {
  let nowMs = beginMs;
  const memory = memoryStore({ ports: { clock: new ProcessClock(() => nowMs) }, now: () => nowMs });
  const pass = (ms: number) => {
    nowMs += ms;
  };
  const store: PassingStore = { ...memory, pass };
  return onMemory(store);
}

function isSame({ rule, told, took }: Call, model: CallResult): boolean {
  if (rule === "sweep" || told === null || told.kind === "failed") return true;
  // One that is known to have happened must have been able to.
  if (isInDoubt(told))
    return took !== true || (model.kind === "said" && model.text.includes('"kind":"committed"'));
  if (told.kind === "threw") return model.kind === "threw";
  return model.kind === "said" && model.text === told.text;
}

/** Whether it was told that a lease goes on of which the model says that its own attempt has ended it. */
async function outlasts({ rule, told }: Call, model: CallResult, { store }: AnyStore): Promise<boolean> {
  if (typeof rule === "string" || !isSaid(told, "true") || !isSaid(model, "false")) return false;
  const { key, id, fence } = rule.outlasts;
  const { record } = await store.read(key);
  return record?.state === "completed" && record.id === id && sameFence(record.fence, fence);
}

function isSaid(told: CallResult | null, text: string): boolean {
  return told?.kind === "said" && told.text === text;
}

function isInDoubt(told: CallResult): boolean {
  return told.kind === "said" && told.text.includes('"kind":"in_doubt"');
}

function wordsOf(told: CallResult | null): string {
  if (told === null) return "never told";
  return told.kind === "failed" ? `failed, ${told.certainty}` : told.text;
}
