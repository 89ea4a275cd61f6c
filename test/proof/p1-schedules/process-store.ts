/** The store as one process reaches it: every call is asked of the world, which answers when it likes. */
import { LatchkeyError } from "../../../packages/latchkey/src/errors.ts";
import type { BusinessRow, MemoryTransaction } from "../../../packages/latchkey/src/stores/memory.ts";
import type { Store } from "../../../packages/latchkey/src/stores/store.ts";

export type AskFor = (port: string, args: readonly unknown[]) => Promise<never>;

export interface Write {
  readonly table: string;
  readonly row: BusinessRow;
}

/** How a transaction opens and ends; for all three kinds. */
interface Kind {
  readonly open: string;
  readonly commit: string;
}

type Transactions = NonNullable<Store<MemoryTransaction>["transactions"]>;
type Ended = { readonly end: "commit" | "rollback" | "abandon"; readonly value: unknown };
type Admit = (found: object) => Promise<boolean>;

const capabilities = {
  transactions: true,
  inProgress: "immediate",
  durability: "synced",
  commitNotice: true,
  fenceSurvivesFailover: true,
  statusReads: "primary",
  optimisticAdmission: true,
} as const;

/** @param name no two transactions of any processes have the same */
export function processStore(ask: AskFor, name: string): Store<MemoryTransaction> {
  const asking = (ports: readonly string[], prefix = "") =>
    Object.fromEntries(ports.map((port) => [port, (...args: unknown[]) => ask(`${prefix}${port}`, args)]));
  let opened = 0;
  const nameOfNext = () => `${name} ${++opened}`;
  const ended = async (
    { id, request, commit }: { readonly id: string; readonly request: object; readonly commit: string },
    { writes }: Buffered,
    working: Promise<Ended>,
    isOpen = () => true,
  ) => {
    const rollBack = async () => void (isOpen() && (await ask("rollback", [id])));
    const { value, ...rest } = await rolledBackOnError(working, rollBack);
    if (rest.end !== "commit") {
      await rollBack();
      return { kind: "rolled_back", value };
    }
    try {
      const outcome: object = await ask(commit, [id, request, writes, rest]);
      return { ...outcome, value };
    } catch (error) {
      return { kind: "in_doubt", value, error };
    }
  };
  const transaction =
    ({ open, commit }: Kind) =>
    async (request: object, work: (open: never) => Promise<Ended>) => {
      const id = nameOfNext();
      const found: object = await ask(open, [id, request]);
      const buffer = new Buffered(async () => true);
      const working = work({ ...found, ...buffer.handle } as never);
      return ended({ id, request, commit }, buffer, working);
    };
  /** It opens with the first use of its `tx`, or when it has to be known whether its work was admitted. */
  const early = async (request: object, admit: Admit, work: (open: never) => Promise<Ended>) => {
    const id = nameOfNext();
    let isOpen = false;
    let isAdmitted = false;
    const open = async () => {
      // Without a reply its connection is closed, which the server learns at any time from then on.
      const found: object = await ask("openEarly", [id, request]).catch((error: unknown) => {
        void ask("rollback", [id]);
        throw error;
      });
      isOpen = true;
      isAdmitted = await admit(found);
      return isAdmitted;
    };
    let opening: Promise<boolean> | null = null;
    const admitted = () => {
      if (opening === null) {
        opening = open();
        opening.catch(() => {});
      }
      return opening;
    };
    const buffer = new Buffered(admitted);
    const working = work({ ...buffer.handle, admitted } as never).then((ran) => {
      if (ran.end === "commit" && !isAdmitted) {
        throw new TypeError("A transaction that was not admitted cannot be committed");
      }
      return ran;
    });
    return ended({ id, request, commit: "commitEarly" }, buffer, working, () => isOpen);
  };
  const transactions = {
    runOptimistic: early,
    run: transaction({ open: "open", commit: "commit" }),
    phase: transaction({ open: "openPhase", commit: "commitPhase" }),
    deliver: transaction({ open: "openDelivery", commit: "commitDelivery" }),
    resolve: (...args: unknown[]) => ask("resolve", args),
  } as unknown as Transactions;
  return {
    name: "explored",
    capabilities,
    transactions,
    hints: null,
    verify: async () => {},
    ...asking(storePorts),
    journal: asking(journalPorts, "journal."),
    settlement: asking(settlementPorts, "settlement."),
    outbox: asking(outboxPorts, "outbox."),
  } as unknown as Store<MemoryTransaction>;
}

const storePorts = [
  "read",
  "readById",
  "create",
  "accept",
  "claimPending",
  "takeOver",
  "renew",
  "end",
  "giveUp",
  "recordLostTransaction",
  "endedLeases",
  "clean",
] as const;
const journalPorts = [
  "read",
  "startCall",
  "endCall",
  "refence",
  "callsByDownstreamKey",
  "finishedCalls",
] as const;
const settlementPorts = ["settle", "claimUnknowns", "postpone", "resumable", "list", "audit"] as const;
const outboxPorts = ["claim", "start", "end", "rescue", "list", "ofRecord", "decide"] as const;

async function rolledBackOnError(work: Promise<Ended>, rollBack: () => Promise<unknown>): Promise<Ended> {
  try {
    return await work;
  } catch (error) {
    await rollBack();
    throw error;
  }
}

/** What a handler writes stays with its process until it commits. */
class Buffered {
  readonly writes: Write[] = [];
  readonly #admitted: () => Promise<boolean>;
  #used = false;
  #revoked = false;

  constructor(admitted: () => Promise<boolean>) {
    this.#admitted = admitted;
  }

  readonly handle = {
    tx: {
      insert: async (table: string, row: BusinessRow) => {
        await this.#use();
        this.writes.push({ table, row });
      },
      rows: async (table: string) => {
        await this.#use();
        return this.writes.filter((write) => write.table === table).map(({ row }) => row);
      },
    } satisfies MemoryTransaction,
    used: () => this.#used,
    revoke: () => {
      this.#revoked = true;
    },
  };

  async #use(): Promise<void> {
    if (this.#revoked) throw new LatchkeyError("tx-revoked");
    this.#used = true;
    if (!(await this.#admitted())) throw new LatchkeyError("not-admitted");
    if (this.#revoked) throw new LatchkeyError("tx-revoked");
  }
}
