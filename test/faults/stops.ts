/** A store whose calls are counted one by one, and one of which stops, before it reaches the store or after. */
import { AsyncLocalStorage } from "node:async_hooks";
import type { Store } from "../../packages/latchkey/src/stores/store.ts";
import type {
  OpenPhase,
  PhaseWork,
  TransactionSupport,
} from "../../packages/latchkey/src/stores/transactions.ts";

/** One port call of a submission, counted from 1. `after`: it has taken effect, and its reply is not seen yet. */
export interface StopAt {
  readonly number: number;
  readonly when: "before" | "after";
}

/** The port calls of one submission: the store's, and the send. Renewals come as they like and are not counted. */
export class Course {
  readonly ports: string[] = [];
  readonly #stop: StopAt | null;
  readonly #stopped: (port: string) => Promise<void>;

  /** @param stopped is called where it stops; it goes on when that has fulfilled */
  constructor(stop: StopAt | null, stopped: (port: string) => Promise<void>) {
    this.#stop = stop;
    this.#stopped = stopped;
  }

  begin(port: string): Readonly<Record<StopAt["when"], () => Promise<void>>> {
    const number = this.ports.push(port);
    const at = (when: StopAt["when"]) => async () => {
      if (this.#stop?.number === number && this.#stop.when === when) await this.#stopped(port);
    };
    return { before: at("before"), after: at("after") };
  }
}

const courses = new AsyncLocalStorage<Course>();
const uncounted = new Course(null, async () => {});
const current = () => courses.getStore() ?? uncounted;

/** Everything that `act` asks of a store or of the other side is counted in `course`. */
export function along<T>(course: Course, act: () => Promise<T>): Promise<T> {
  return courses.run(course, act);
}

export async function pass<T>(port: string, act: () => Promise<T>): Promise<T> {
  const call = current().begin(port);
  await call.before();
  const reply = await act();
  await call.after();
  return reply;
}

export function stoppingStore<Tx>(inner: Store<Tx>): Store<Tx> {
  const { journal, settlement, transactions } = inner;
  return {
    ...inner,
    read: (...at) => pass("read", () => inner.read(...at)),
    create: (...life) => pass("create", () => inner.create(...life)),
    takeOver: (...taken) => pass("takeOver", () => inner.takeOver(...taken)),
    end: (...end) => pass("end", () => inner.end(...end)),
    giveUp: (...given) => pass("giveUp", () => inner.giveUp(...given)),
    transactions: transactions === null ? null : stoppingPhases(transactions),
    journal: {
      ...journal,
      read: (...at) => pass("readJournal", () => journal.read(...at)),
      startCall: (...call) => pass("startCall", () => journal.startCall(...call)),
      endCall: (...call) => pass("endCall", () => journal.endCall(...call)),
      refence: (...owner) => pass("refence", () => journal.refence(...owner)),
    },
    settlement: {
      ...settlement,
      settle: (...settled) => pass("settle", () => settlement.settle(...settled)),
    },
  };
}

/** A phase is two calls: it opens, and it commits. */
function stoppingPhases<Tx>(inner: TransactionSupport<Tx>): TransactionSupport<Tx> {
  return {
    ...inner,
    async phase(request, work) {
      const course = current();
      const opening = course.begin("openPhase");
      let commit = uncounted.begin("commitPhase");
      await opening.before();
      const outcome = await inner.phase(request, async (open: OpenPhase<Tx>) => {
        await opening.after();
        const ended: PhaseWork<never> | Awaited<ReturnType<typeof work>> = await work(open);
        if (ended.end === "commit") {
          commit = course.begin("commitPhase");
          await commit.before();
        }
        return ended;
      });
      await commit.after();
      return outcome;
    },
  };
}
