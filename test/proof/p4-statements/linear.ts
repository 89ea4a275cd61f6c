/**
 * Whether one order of the calls explains all results and what is left: the memory store, which makes one call
 * after the other, is the model. A call takes effect between its beginning and its end; one that is in doubt later, or never.
 */
import { sameFence } from "../../../packages/latchkey/src/engine/record.ts";
import { memoryStore } from "../../../packages/latchkey/src/stores/memory.ts";
import type { OutboxSupport } from "../../../packages/latchkey/src/stores/outbox.ts";
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
  const results = history.calls.map(({ name, result }) => `${name}: ${wordsOf(result)}`);
  return `I14: no order of the calls explains the answers and the end\n    ${results.join("\n    ")}\n    end: ${end}`;
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
    const { result, took } = call;
    if (took !== null) return [took];
    if (result === null) return [true, false];
    switch (result.kind) {
      case "failed":
        return result.certainty === "in_doubt" ? [true, false] : [false];
      case "threw":
        return [true];
      case "returned":
        if (isInDoubt(result)) return [true, false];
        if (call.rule === "sweep") return [true, false];
        return result.missed && call.rule === "may_miss" && this.#overlaps(call) ? [true, false] : [true];
      default:
        return result satisfies never;
    }
  }

  #overlaps(call: Call): boolean {
    return this.#history.calls.some(
      (other) => other !== call && other.invoked < call.returned && call.invoked < other.returned,
    );
  }

  /** Makes them all on a new model. False: a call would have had another result. */
  async #holds(placed: readonly Placed[], isEnd: boolean): Promise<boolean> {
    const { beginMs, before, watched } = this.#history;
    const on = model(beginMs);
    for (const { make } of before) await observe(() => make(on));
    for (const { call, took } of placed) {
      if (!took) continue;
      const { result } = await observe(() => call.make(on));
      if (!isSame(call, result) && !(await outlasts(call, result, on))) return false;
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
  const store: PassingStore = { ...memory, outbox: memory.outbox && removing(memory.outbox), pass };
  return onMemory(store);
}

/**
 * Where nothing of a page of deliveries is kept, its rows are gone, as on Postgres: a repetition finds no claim. The contract also
 * allows a store to end such a page in parts, which this model would refuse.
 */
function removing(outbox: OutboxSupport): OutboxSupport {
  const gone = new Set<string>();
  return {
    ...outbox,
    async end(ends) {
      const ended = (await outbox.end(ends)).filter((id) => !gone.has(id));
      const isRemoval = ends.every((end) => end.event === "deliver" && end.keepMs === 0);
      for (const id of isRemoval ? ended : []) gone.add(id);
      return ended;
    },
    list: async (filter) => (await outbox.list(filter)).filter(({ id }) => !gone.has(id)),
  };
}

function isSame({ rule, result, took }: Call, model: CallResult): boolean {
  if (rule === "sweep" || result === null || result.kind === "failed") return true;
  // One that is known to have happened must have been able to.
  if (isInDoubt(result))
    return took !== true || (model.kind === "returned" && model.text.includes('"kind":"committed"'));
  if (result.kind === "threw") return model.kind === "threw";
  return model.kind === "returned" && model.text === result.text;
}

/** Whether its result is that a lease goes on of which the model says that its own attempt has ended it. */
async function outlasts({ rule, result }: Call, model: CallResult, { store }: AnyStore): Promise<boolean> {
  if (typeof rule === "string" || !hasReturned(result, "true") || !hasReturned(model, "false")) return false;
  const { key, id, fence } = rule.outlasts;
  const { record } = await store.read(key);
  return record?.state === "completed" && record.id === id && sameFence(record.fence, fence);
}

function hasReturned(result: CallResult | null, text: string): boolean {
  return result?.kind === "returned" && result.text === text;
}

function isInDoubt(result: CallResult): boolean {
  return result.kind === "returned" && result.text.includes('"kind":"in_doubt"');
}

function wordsOf(result: CallResult | null): string {
  if (result === null) return "no result";
  return result.kind === "failed" ? `failed, ${result.certainty}` : result.text;
}
