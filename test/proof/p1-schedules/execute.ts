/** Lets one thing happen that was asked for: production code of the store, on a copy of what is shared. */

import type { RecordKey } from "../../../packages/latchkey/src/engine/record.ts";
import type { MemoryTransaction } from "../../../packages/latchkey/src/stores/memory.ts";
import type { Store } from "../../../packages/latchkey/src/stores/store.ts";
import type {
  Admission,
  DeliveryRequest,
  PhaseRequest,
  TransactionRequest,
  TransactionWork,
} from "../../../packages/latchkey/src/stores/transactions.ts";
import type { Plant } from "../harness/store-plants.ts";
import type { Touch } from "./apart.ts";
import { type Ask, sideOf } from "./ask.ts";
import { reply } from "./other-side.ts";
import type { Write } from "./process-store.ts";
import { holdKeys, restored, type Shared, withoutTransaction } from "./shared.ts";

export interface Done {
  readonly shared: Shared;
  readonly threw: boolean;
  readonly value: unknown;
  /** What the other side has seen that must not be. */
  readonly violation: string | null;
  readonly reached: readonly string[];
  /** What it used of what the store keeps. */
  readonly touched: readonly Touch[];
}

const quiet = { threw: false, violation: null, reached: [], touched: [] } as const;

/** Asking what became of a COMMIT waits until whoever holds the key has ended, or for as long as its caller set. */
export function mayHappen(
  shared: Shared,
  { port, args }: Pick<Ask, "port" | "args">,
  askedMs: number,
): boolean {
  if (port !== "resolve") return true;
  return holder(shared, args[0] as RecordKey) === null || shared.now >= askedMs + (args[3] as number);
}

export async function execute(shared: Shared, ask: Ask, plant: Plant | null): Promise<Done> {
  if (sideOf(ask.port) === "other side") return ofOtherSide(shared, ask);
  const { port, args } = ask;
  switch (port) {
    case "open":
    case "openEarly":
      return open(shared, ask, plant);
    case "openPhase":
    case "openDelivery":
      return { ...quiet, shared, value: {} };
    case "rollback":
      return { ...quiet, shared: withoutTransaction(shared, args[0]), value: null };
    case "commit":
    case "commitEarly":
    case "commitPhase":
    case "commitDelivery":
      return commit(shared, ask, plant);
    case "resolve":
      // Its time is over.
      if (holder(shared, args[0] as RecordKey) !== null) return { ...quiet, shared, value: "in_doubt" };
  }
  const { store, snapshot, touched } = begun(shared, plant, false);
  try {
    const value: unknown = await methodOf(store, port)(...args);
    const reached = port === "resolve" ? [`COMMIT in doubt resolved to ${String(value)}`] : [];
    return { ...quiet, shared: snapshot(), value, reached, touched };
  } catch (error) {
    return {
      ...quiet,
      shared: snapshot(),
      threw: true,
      value: error,
      violation: `${port} threw ${String(error)}`,
      touched,
    };
  }
}

function holder({ open, now }: Shared, key: RecordKey) {
  const holds = open.find(
    (one) => one.exclusive && now < one.endsAt && one.key.key === key.key && one.key.tenant === key.tenant,
  );
  return holds ?? null;
}

function begun(shared: Shared, plant: Plant | null, isIdle: boolean) {
  const { store, ...rest } = restored(shared, isIdle);
  return { store: plant === null ? store : { ...store, ...plant(store) }, ...rest };
}

function methodOf(store: Store<MemoryTransaction>, port: string): (...args: readonly unknown[]) => unknown {
  const [first = "", second] = port.split(".");
  const place = (second === undefined ? store : store[first as "journal"]) as unknown;
  const owner = first === "resolve" ? store.transactions : place;
  return (owner as Readonly<Record<string, (...args: readonly unknown[]) => unknown>>)[
    second ?? first
  ] as never;
}

function ofOtherSide(shared: Shared, { port, args }: Ask): Done {
  const { other, ...replied } = reply(
    shared.other,
    port,
    port === "lookUpOperation" ? [attemptOf(shared, args)] : args,
  );
  return { ...quiet, ...replied, shared: other === shared.other ? shared : { ...shared, other } };
}

/** It closes the attempt that it finds, and all before it. */
function attemptOf({ rows }: Shared, [life]: readonly unknown[]) {
  const row = rows.find(({ record }) => record.id === life);
  return { life, attempt: row?.record.fence.attempt ?? 0 };
}

async function open(shared: Shared, { actor, port, args }: Ask, plant: Plant | null): Promise<Done> {
  const [id, request] = args as [string, TransactionRequest];
  const { store, touched } = begun(shared, plant, false);
  holdKeys(store, shared);
  const { promise, resolve } = Promise.withResolvers<Seen>();
  const see = async ({ reading, exclusive }: Seen) => resolve({ reading, exclusive });
  if (port === "open") void transactionsOf(store).run(request, (seen) => see(seen).then(leaves));
  else {
    const admit = (seen: Seen) => see(seen).then(() => false);
    void early(store)(request, admit, ({ admitted }) => admitted().then(leaves));
  }
  const value = await promise;
  const { exclusive } = value;
  const opened = { id, actor, key: request.key, exclusive, endsAt: shared.now + request.idleLimitMs };
  return { ...quiet, shared: { ...shared, open: [...shared.open, opened] }, value, touched };
}

type Seen = Pick<Admission, "reading" | "exclusive">;

function leaves() {
  return { end: "rollback", value: null } as const;
}

type Work = Extract<TransactionWork<null>, { readonly end: "commit" }>;

async function commit(before: Shared, { port, args }: Ask, plant: Plant | null): Promise<Done> {
  const [id, request, writes, work] = args as [string, TransactionRequest, readonly Write[], Work];
  const there = before.open.find((one) => one.id === id);
  const isOver = there !== undefined && before.now >= there.endsAt;
  const shared = withoutTransaction(before, id);
  const { store, snapshot, touched } = begun(shared, plant, isOver);
  const inside = async ({ tx }: { readonly tx: MemoryTransaction }) => {
    for (const { table, row } of writes) await tx.insert(table, row).catch(() => {});
    return { ...work, value: null };
  };
  const { value: _, ...outcome } = await committed(store, port, request, inside);
  return { ...quiet, shared: snapshot(), value: outcome, touched };
}

function committed(
  store: Store<MemoryTransaction>,
  port: string,
  request: object,
  inside: (open: { readonly tx: MemoryTransaction }) => Promise<Work>,
) {
  const transactions = transactionsOf(store);
  if (port === "commitEarly") {
    const admitted = async () => true;
    return early(store)<null>(request as TransactionRequest, admitted, async (open) => {
      await open.admitted();
      return inside(open);
    });
  }
  if (port === "commitPhase") return transactions.phase<null>(request as PhaseRequest, inside as never);
  if (port === "commitDelivery")
    return transactions.deliver<null>(request as DeliveryRequest, inside as never);
  return transactions.run<null>(request as TransactionRequest, inside);
}

function early(store: Store<MemoryTransaction>) {
  const { runOptimistic } = transactionsOf(store);
  if (runOptimistic === undefined) throw new TypeError("The memory store has optimistic admission");
  return runOptimistic;
}

function transactionsOf({ transactions }: Store<MemoryTransaction>) {
  if (transactions === null) throw new TypeError("The memory store has transactions");
  return transactions;
}
