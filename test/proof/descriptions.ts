/** What docs/proof.md says about each tier. It is apart from the tiers: a reworded sentence is no change of a proof. */
import type { TierId } from "./harness/tier.ts";

export interface Description {
  readonly title: string;
  /** The question that the tier answers, for the summary. */
  readonly question: string;
  /** What it runs, and how it judges. */
  readonly about: string;
  readonly notShown: readonly string[];
  /** Rows of one group that have the same bound and the same state become one row of the page. */
  readonly group?: (what: string) => string;
}

export const descriptions: Readonly<Record<TierId, Description>> = {
  P0: {
    title: "The protocol as a Spin model",
    question: "Is the protocol right in every state of a model?",
    about:
      "A Promela model of one operation in lease execution with one outbound call: owners that crash or freeze at any step, a rescuer, a reconciler, and a provider with its own ledger. Spin visits every state inside the bound. Nothing may happen twice, no stale owner may complete, all callers must get one answer, and the last client must finish. Variants with a planted mistake must fail, each at the assertion written for it.",
    notShown: ["The code. The model of the protocol is written by hand."],
    group: (what) => (what.startsWith("states until it fails") ? "states until a variant fails" : "states"),
  },
  P1: {
    title: "Every schedule inside a bound",
    question: "Does every order of steps, crashes and lost replies inside a bound keep the invariants?",
    about:
      "Production code over the memory store, explored depth first: two owners of one key, the rescuer, the reconciler and the dispatcher, one store call or send at a time. Handlers of transactions start after the look-up of their key or, under optimistic admission, before it. Every choice is tried: which process moves, whether it crashes before or after a call takes effect, whether a request or its reply is lost or late, and when a lease ends. A crash is tried where its process was last running or holds a transaction. Positions with the same store, provider, processes and remaining budget are explored once. Two processes count as the same when they have received the same answers and wait for the same thing; two of each such class are followed and must act alike. Inside the largest bound, steps and a dispatcher are explored separately ([decision 013](decisions/013-how-far-steps-are-explored.md)). Each step is checked as it happens; at the end faults stop and all work must finish.",
    notShown: [
      "What a database itself does: calls of the memory store are atomic, and it never loses a commit.",
      "Positions whose 64-bit hashes collide: the second would count as explored. The chance is one in some hundreds in the largest explorations.",
      "A process whose behaviour depends on the order in which it received answers, and that shows it only in a third process of its class. At smaller bounds, where no processes are treated as the same, the schedules and their ends are equal.",
      "Steps and a dispatcher together inside the largest bound ([decision 013](decisions/013-how-far-steps-are-explored.md)).",
      "More than one round of each background service while faults continue, deferred operations, cleaning, and more than one key. P2 draws these.",
    ],
    group: (what) => what.replace(/-.*/, ""),
  },
  P2: {
    title: "Random schedules",
    question: "Do the invariants hold in random schedules far outside that bound?",
    about:
      "Production code over the memory store in two processes that crash and freeze, with clients, all background services, an operator and a provider that keeps its own ledger. Requests of some operations share transactions, as messages of an inbox do. Numbers drawn from a 64-bit seed decide which waiting port call proceeds, which fault it meets, when time passes, and what starts. Each write and each answer is checked as it happens, and each key's history by a linearizability checker. Then faults stop, and all work must finish. A failing schedule is shortened before it is reported.",
    notShown: [
      "What a database itself does: calls of the memory store are atomic, and it never loses a commit.",
      "Schedules that were not drawn.",
    ],
  },
  P3: {
    title: "The same sequences on every store",
    question: "Do the stores give the same answers?",
    about:
      "A sequence drawn from a 64-bit seed runs on the memory store, on PGlite and on a private Postgres, each under a clock that moves only when the sequence says so. Sequences of calls use the whole store contract, including transactions and phases, with valid, stale and foreign callers; after each call the replies must be equal, and at the end everything that can be read. Sequences of operations send whole requests through the engine, with failing handlers, crashing processes, lost replies, background services and an operator; answers, records, effects, business rows and the provider's ledger must be equal. A failing sequence is shortened before it is reported.",
    notShown: [
      "Calls that overlap. Each store receives one call at a time; P4 covers concurrent statements.",
      "A settlement repeated under its id after its record was forgotten and its key used again. The stores differ: the databases raise an error, and the memory store reports success though it changes nothing. Latchkey repeats such a call only while a reply is outstanding, so the record would have to be settled and forgotten within that time.",
      "Orders that the contract leaves open: which of two entries due at the same moment comes first, and which of several dead claims is released first.",
    ],
  },
  P4: {
    title: "Interleavings of statements on real Postgres sessions",
    question: "Are concurrent sessions of a real Postgres right, whatever the order of their statements?",
    about:
      "Two to four processes, each with its own pool, store and clock, run store calls, whole requests, or batches of an inbox's messages on a private server. A proxy splits what they send into statements, and each statement waits until it is chosen; a statement and its COMMIT are two steps. A step that waits for a lock is recognised through `pg_blocking_pids`, and the others proceed. Each interleaving has at most one fault: a backend that is killed before, between or inside statements, a lost final reply, or bytes that arrive after their client has given up, or never. Afterwards some sequential order on the memory store must explain all answers and the final state. Each life has at most one business row. Each message of a batch has its row if and only if it has its record, both from one COMMIT, and is acknowledged only with both. An effect exists if and only if its transaction committed. At READ COMMITTED and without a fault, a handler passes its first statement once if its request is answered `executed`, otherwise never. No statement waits without need, and no session, lock or connection remains.",
    notShown: [
      "Orders inside one statement: a statement is one step until it waits for a lock.",
      "More than one fault in one interleaving.",
    ],
    group: (what) => what.replace(/, PostgreSQL \d+/, ""),
  },
  P5: {
    title: "A real process killed at every port call",
    question: "Can a process be killed at any call without loss or repetition?",
    about:
      "A Node process does one piece of work over Postgres: a request, or one round of a background service. It counts its port calls (store calls, statements of the handler, requests to the provider) and sends itself SIGKILL at one of them: before the call; in flight, after the bytes have left and before a reply is read, at each write of the call; late, where those bytes reach their destination only after other processes have continued; and after the reply. Every call of every mode is such a point. Then clients retry, and services of another process work until all is finished, with the store's clock moved past each lease. The judges are business tables without unique constraints, the provider's own ledger, triggers that log each change of a record, and the clients' answers.",
    notShown: [
      "A process that dies after only a part of one write has left it, and several that die at once.",
      "A machine that dies. What the operating system has received survives here.",
    ],
  },
  P6: {
    title: "Chaos with real processes and servers",
    question:
      "Does a running system lose or repeat anything under kills, failovers, cut networks and full disks?",
    about:
      "Soak: clients of two tenants send new keys, duplicates and duplicates with another body to server processes that run every execution mode and an outbox on a private Postgres, each behind its own TCP proxy. Meanwhile Postgres and servers are killed with SIGKILL, servers freeze for longer than a lease, connections are cut and delayed, COMMITs and their replies are held, lost or late, and pools are exhausted. Then all work must finish without a restart, and each key is requested again from any server. Failover: the same with a standby that is promoted, disks that fill up, clock jumps, pgbouncer and exhausted connections. The judges are observers that no fault reaches: the clients' log, business rows without a unique constraint, and the ledgers of the provider and of the receiver of effects. Each key's history must be linearizable.",
    notShown: [
      "Power loss: a killed server's writes survive in the machine's page cache.",
      "More than one standby, quorum commit, and cascading replication.",
    ],
  },
  P7: {
    title: "Whether bugs are noticed",
    question: "Would the other tiers notice a bug?",
    about:
      "Mistakes that others have made, or that one could make here, are planted one at a time into the library's source as it is loaded, and the small volume of another tier has to find each. A bug that no tier finds fails this tier. Stryker then makes every small change of the pure core, and its tests must notice each.",
    notShown: [],
  },
};
