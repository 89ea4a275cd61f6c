/** Calls on stores, written down so that they can be made again, one after the other, on the memory store. */
import { StoreError } from "../../../packages/latchkey/src/errors.ts";
import type { Owner } from "../../../packages/latchkey/src/stores/journal.ts";
import type { MemoryTransaction } from "../../../packages/latchkey/src/stores/memory.ts";
import type { Store } from "../../../packages/latchkey/src/stores/store.ts";
import { rowInsert } from "./handler-texts.ts";
import type { Session, Tx, World } from "./scenario.ts";

/** A store of any kind, and how a handler writes its business row there. */
export interface AnyStore {
  readonly store: Store<unknown>;
  write(
    tx: unknown,
    row: { readonly key: string; readonly life: string; readonly by: string },
  ): Promise<void>;
}

/**
 * What a call may answer beside what the model says at one moment of it.
 * - `exact`: nothing.
 * - `may_miss`: what `isMiss` says is an answer of somebody who came upon another's unfinished work, and changed nothing.
 * - `sweep`: it is several statements, each for itself; its counts say nothing.
 * - `outlasts`: a lease may be renewed that this owner's own end has left behind. Nothing depends on it, and the
 *   record-cleaner finds it.
 */
export type Rule = "exact" | "may_miss" | "sweep" | { readonly outlasts: Owner };

export type CallResult =
  | { readonly kind: "returned"; readonly text: string; readonly missed: boolean }
  | { readonly kind: "failed"; readonly certainty: StoreError["certainty"] }
  | { readonly kind: "threw"; readonly text: string };

export interface Call {
  readonly name: string;
  readonly rule: Rule;
  readonly make: (on: AnyStore) => Promise<unknown>;
  readonly invoked: number;
  /** Infinity: what it does may happen at any time to come. */
  returned: number;
  result: CallResult | null;
  /** What a later call has found out about one in doubt: whether it took effect. */
  took: boolean | null;
}

export class Calls {
  readonly made: Call[] = [];
  readonly #world: World;

  constructor(world: World) {
    this.#world = world;
  }

  /** A call of this session. Failures of the store are answered as null. */
  async make<T>(
    session: Session,
    name: string,
    make: (on: AnyStore) => Promise<T>,
    rule: Rule = "exact",
  ): Promise<T | null> {
    const world = this.#world;
    const returned = Number.POSITIVE_INFINITY;
    const call: Call = { name, rule, make, invoked: world.next(), returned, result: null, took: null };
    this.made.push(call);
    const { result, value } = await observe(() => make(onPostgres(session, world)));
    call.result = result;
    const isDoubtful =
      result.kind === "failed" ? result.certainty === "in_doubt" : hasKind(value, "in_doubt");
    if (!isDoubtful) call.returned = world.next();
    return value;
  }

  /** It is certain now whether the last call of this name took effect. */
  decide(name: string, took: boolean): void {
    const call = this.made.findLast((one) => one.name === name);
    if (call !== undefined) call.took = took;
  }

  /** Time that passes, in the model as well. */
  async pass(ms: number): Promise<void> {
    const world = this.#world;
    const invoked = world.next();
    await world.pass(ms);
    this.made.push({
      name: `${ms} ms pass`,
      rule: "exact",
      make: async ({ store }) => (store as PassingStore).pass?.(ms),
      invoked,
      returned: world.next(),
      result: resultOf(undefined),
      took: null,
    });
  }
}

/** The model's store, whose time can be moved. */
export type PassingStore = Store<unknown> & { readonly pass?: (ms: number) => void };

function onPostgres({ store }: Session, { business }: World): AnyStore {
  return {
    store,
    async write(tx, { key, life, by }) {
      await (tx as Tx).query(rowInsert(business), [key, life, by]);
    },
  };
}

export const onMemory = (store: Store<unknown>): AnyStore => ({
  store,
  async write(tx, row) {
    await (tx as MemoryTransaction).insert("business", { ...row });
  },
});

/** The result of a call, in a form that can be compared. */
export async function observe<T>(
  make: () => Promise<T>,
): Promise<{ readonly result: CallResult; readonly value: T | null }> {
  try {
    const value = await make();
    return { result: resultOf(value), value };
  } catch (error) {
    const certainty = certaintyOf(error);
    if (certainty !== null) return { result: { kind: "failed", certainty }, value: null };
    return { result: { kind: "threw", text: String(error) }, value: null };
  }
}

/** Null: it is no failure of the store. What `pg` has thrown comes from a handler: its transaction is over. */
function certaintyOf(error: unknown): StoreError["certainty"] | null {
  if (error instanceof StoreError) return error.certainty;
  const isDrivers = error instanceof Error && !(error instanceof TypeError);
  return isDrivers && ("severity" in error || error.message.startsWith("Connection terminated"))
    ? "rolled_back"
    : null;
}

function resultOf(value: unknown): CallResult {
  return { kind: "returned", text: textOf(value), missed: isMiss(value) };
}

function isMiss(value: unknown): boolean {
  if (value === null || value === false) return true;
  if (Array.isArray(value)) return value.length === 0;
  if (typeof value !== "object" || value === undefined) return false;
  if ("unstarted" in value && "started" in value) return value.unstarted === 0 && value.started === 0;
  return hasKind(value, "lost") || ("because" in value && value.because === "serialization");
}

export function hasKind(value: unknown, kind: string): boolean {
  return typeof value === "object" && value !== null && "kind" in value && value.kind === kind;
}

/** The same for the same answer of another store: bytes as hexadecimal digits, errors left out. */
function textOf(value: unknown): string {
  const readable = (name: string, part: unknown) => {
    if (name === "error") return undefined;
    if (part instanceof Uint8Array) return Buffer.from(part).toString("hex");
    if (isBufferJson(part)) return Buffer.from(part.data).toString("hex");
    if (typeof part !== "object" || part === null || Array.isArray(part)) return part;
    return Object.fromEntries(Object.entries(part).toSorted(([a], [b]) => (a < b ? -1 : 1)));
  };
  return JSON.stringify(value, readable) ?? "nothing";
}

/** `JSON.stringify` has called `toJSON` by then. */
function isBufferJson(part: unknown): part is { readonly data: number[] } {
  return (
    typeof part === "object" && part !== null && "type" in part && part.type === "Buffer" && "data" in part
  );
}
