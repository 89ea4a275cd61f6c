/** A store every call of which is counted by its port; a transaction, a phase or a delivery is two calls. */
import type { HintSupport } from "../../../packages/latchkey/src/stores/hints.ts";
import type { JournalSupport } from "../../../packages/latchkey/src/stores/journal.ts";
import type { OutboxSupport } from "../../../packages/latchkey/src/stores/outbox.ts";
import type { SettlementSupport } from "../../../packages/latchkey/src/stores/settlement.ts";
import type { Store } from "../../../packages/latchkey/src/stores/store.ts";
import type { TransactionSupport } from "../../../packages/latchkey/src/stores/transactions.ts";
import type { Course, Port } from "./course.ts";

export function countedStore<Tx>(inner: Store<Tx>, course: Course): Store<Tx> {
  const { transactions, journal, settlement, outbox, hints } = inner;
  const pass = course.pass.bind(course);
  return {
    name: inner.name,
    capabilities: inner.capabilities,
    transactions: transactions === null ? null : countedTransactions(transactions, course),
    journal: countedJournal(journal, course),
    settlement: countedSettlement(settlement, course),
    outbox: outbox === null ? null : countedOutbox(outbox, course),
    // None of the courses consumes messages.
    messages: inner.messages,
    hints: hints === null ? null : countedHints(hints, course),
    verify: () => pass("verify", () => inner.verify()),
    read: (...given) => pass("read", () => inner.read(...given)),
    readById: (...given) => pass("readById", () => inner.readById(...given)),
    create: (...given) => pass("create", () => inner.create(...given)),
    accept: (...given) => pass("accept", () => inner.accept(...given)),
    claimPending: (...given) => pass("claimPending", () => inner.claimPending(...given)),
    takeOver: (...given) => pass("takeOver", () => inner.takeOver(...given)),
    renew: (...given) => pass("renew", () => inner.renew(...given)),
    end: (...given) => pass("end", () => inner.end(...given)),
    giveUp: (...given) => pass("giveUp", () => inner.giveUp(...given)),
    recordLostTransaction: (...given) =>
      pass("recordLostTransaction", () => inner.recordLostTransaction(...given)),
    endedLeases: (...given) => pass("endedLeases", () => inner.endedLeases(...given)),
    clean: (...given) => pass("clean", () => inner.clean(...given)),
  };
}

type End = "commit" | "rollback" | "abandon";
type Ports = Readonly<Record<"open" | End, Port>>;

const transactionPorts: Ports = {
  open: "open",
  commit: "commit",
  rollback: "rollback",
  abandon: "abandon",
};
const phasePorts: Ports = {
  open: "openPhase",
  commit: "commitPhase",
  rollback: "rollbackPhase",
  abandon: "abandonPhase",
};
const deliveryPorts: Ports = {
  open: "openDelivery",
  commit: "commitDelivery",
  rollback: "rollbackDelivery",
  abandon: "abandonDelivery",
};

function countedTransactions<Tx>(inner: TransactionSupport<Tx>, course: Course): TransactionSupport<Tx> {
  const bracket = <Open, Work extends { readonly end: End }, Outcome>(
    ports: Ports,
    begin: (work: (open: Open) => Promise<Work>) => Promise<Outcome>,
    work: (open: Open) => Promise<Work>,
  ): Promise<Outcome> =>
    course.bracket(ports.open, (inside, end) =>
      begin(async (open) => {
        try {
          const worked = await inside(() => work(open));
          end(ports[worked.end]);
          return worked;
        } catch (error) {
          end(ports.rollback);
          throw error;
        }
      }),
    );
  return {
    run: (request, work) => bracket(transactionPorts, (inside) => inner.run(request, inside), work),
    phase: (request, work) => bracket(phasePorts, (inside) => inner.phase(request, inside), work),
    deliver: (request, work) => bracket(deliveryPorts, (inside) => inner.deliver(request, inside), work),
    resolve: (...given) => course.pass("resolve", () => inner.resolve(...given)),
  };
}

function countedJournal(inner: JournalSupport, course: Course): JournalSupport {
  const pass = course.pass.bind(course);
  return {
    read: (...given) => pass("readJournal", () => inner.read(...given)),
    startCall: (...given) => pass("startCall", () => inner.startCall(...given)),
    endCall: (...given) => pass("endCall", () => inner.endCall(...given)),
    refence: (...given) => pass("refence", () => inner.refence(...given)),
    callsByDownstreamKey: (...given) =>
      pass("callsByDownstreamKey", () => inner.callsByDownstreamKey(...given)),
    finishedCalls: (...given) => pass("finishedCalls", () => inner.finishedCalls(...given)),
  };
}

function countedSettlement(inner: SettlementSupport, course: Course): SettlementSupport {
  const pass = course.pass.bind(course);
  return {
    settle: (...given) => pass("settle", () => inner.settle(...given)),
    hasten: (...given) => pass("hasten", () => inner.hasten(...given)),
    claimUnknowns: (...given) => pass("claimUnknowns", () => inner.claimUnknowns(...given)),
    postpone: (...given) => pass("postpone", () => inner.postpone(...given)),
    resumable: (...given) => pass("resumable", () => inner.resumable(...given)),
    list: (...given) => pass("listRecords", () => inner.list(...given)),
    audit: (...given) => pass("readAudit", () => inner.audit(...given)),
  };
}

function countedOutbox(inner: OutboxSupport, course: Course): OutboxSupport {
  const pass = course.pass.bind(course);
  return {
    claim: (...given) => pass("claimEffects", () => inner.claim(...given)),
    start: (...given) => pass("startEffects", () => inner.start(...given)),
    end: (...given) => pass("endEffects", () => inner.end(...given)),
    rescue: (...given) => pass("rescueEffects", () => inner.rescue(...given)),
    list: (...given) => pass("listEffects", () => inner.list(...given)),
    ofRecord: (...given) => pass("effectsOfRecord", () => inner.ofRecord(...given)),
    confirm: (...given) => pass("confirmEffect", () => inner.confirm(...given)),
    decide: (...given) => pass("decideEffect", () => inner.decide(...given)),
  };
}

/** A hint is sent and not waited for. */
function countedHints(inner: HintSupport, course: Course): HintSupport {
  return {
    send: (hint) => course.passNow("sendHint", () => inner.send(hint)),
    listen: (hear) => course.pass("listenToHints", () => inner.listen(hear)),
  };
}
