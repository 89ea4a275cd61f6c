/** What happens in a sequence of operations: requests, services, persons. */

import type { LatchkeyRecord } from "../../../../packages/latchkey/src/engine/record.ts";
import type { SettleWith } from "../../../../packages/latchkey/src/execution/settle.ts";
import type { Submission, Work } from "../../../../packages/latchkey/src/operations/attempt.ts";
import type { OwnedOperation } from "../../../../packages/latchkey/src/operations/owned-operation.ts";
import type { DeadVerdict } from "../../../../packages/latchkey/src/stores/outbox.ts";
import type { Choices } from "../../p2-random/choices.ts";
import type { Hand, Process, ServiceName } from "./hand.ts";
import { leaseWork, type OperationName, operationNames, type StepsInput, transactionWork } from "./work.ts";

export interface Step {
  /** To be read. */
  readonly what: string;
  /** For the counters. */
  readonly kind: string;
  /** Whether a call of it on the store may fail, or end its process. */
  readonly mayFail: boolean;
  act(hand: Hand, process: Process): Promise<unknown>;
}

/** What a sequence is about. */
export interface Plan {
  readonly operations: readonly OperationName[];
  /** Which may be asked for by whom. */
  readonly places: readonly { readonly tenant: string; readonly key: string }[];
}

const allPlaces = [
  { tenant: "a", key: "k1" },
  { tenant: "b", key: "k1" },
  { tenant: "a", key: "k2" },
];

/** Of few things, so that they meet. */
export function planOf(head: Choices): Plan {
  const first = head.choose(operationNames.length);
  const count = 1 + head.choose(2);
  const operations = Array.from({ length: count }, (_, index) => {
    return operationNames[(first + index * 2) % operationNames.length] ?? "tx";
  });
  return { operations, places: allPlaces.slice(0, 1 + head.choose(allPlaces.length)) };
}

const person = { operator: "anna", reason: "asked the other side" } as const;

/** A key of an operation. */
export interface About {
  readonly name: OperationName;
  readonly tenant: string;
  readonly key: string;
}

export function someAbout(choices: Choices, { operations, places }: Plan): About {
  return { name: choices.pick(operations), ...choices.pick(places) };
}

export function request(choices: Choices, { name, tenant, key }: About): Step {
  const [body, principal] = [choices.oneIn(20) ? 1 : 0, choices.oneIn(24) ? "p" : null];
  const who = `${tenant}/${key}/${body}`;
  return {
    what: `request ${name} ${who}${principal === null ? "" : " by another"}`,
    kind: name,
    mayFail: true,
    act: (hand, process) => submit(hand, process, name, { tenant, key, body, principal }),
  };
}

interface Asked {
  readonly tenant: string;
  readonly key: string;
  readonly body: number;
  readonly principal: string | null;
}

function submit(hand: Hand, { latchkey, operations, ...rest }: Process, name: OperationName, asked: Asked) {
  const { tenant, key, body, principal } = asked;
  const operation = operations.get(name);
  if (operation === undefined) throw new TypeError(`There is no operation ${name}`);
  const digest = new Uint8Array(32).fill(1 + body);
  const submission: Submission = {
    key: { tenant, scope: name, key },
    fingerprint: { version: 1, digest },
    principal,
  };
  const place = `${name}/${tenant}/${key}/${body}`;
  switch (name) {
    case "tx": {
      const work = transactionWork(hand, { latchkey, operations, ...rest }, place);
      return latchkey.execute(operation, submission, work as Work<unknown>);
    }
    case "lease":
    case "rerun":
      return latchkey.execute(operation, submission, leaseWork(hand, place) as Work<unknown>);
    default:
      return latchkey.executeOwned(operation as OwnedOperation<"lease", StepsInput>, submission, { place });
  }
}

export function round(name: ServiceName): Step {
  return {
    what: `a round of the ${name}`,
    kind: name,
    mayFail: name === "worker" || name === "rescuer",
    act: (_, process) => process.services[name].runOnce(),
  };
}

/** A person decides about what is unknown: what it says is what has happened. */
export function settlement(choices: Choices, { name, tenant, key }: About): Step {
  const failed = choices.oneIn(4);
  return {
    what: `a person settles ${name} ${tenant}/${key}`,
    kind: "settle",
    mayFail: false,
    async act(hand, { latchkey }) {
      const { record } = await hand.on.store.read({ tenant, scope: name, key });
      if (record?.state !== "unknown") return null;
      const decision = failed
        ? { failed: { status: 409, body: { failed: true } } }
        : await decisionOf(hand, record);
      return latchkey.settle({ tenant, operation: name, key, recordId: record.id }, decision, person);
    },
  };
}

async function decisionOf({ on, downstream }: Hand, record: LatchkeyRecord): Promise<SettleWith> {
  const journal = await on.store.journal.read(record, record.id);
  const started = journal?.steps.find((step) => step.kind === "call" && step.state === "started");
  if (started?.kind === "call") {
    const closed = downstream.close(started.downstreamKey);
    return "happened" in closed
      ? { call: started.name, result: closed.happened }
      : { notExecuted: "closed-downstream", downstreamKey: started.downstreamKey };
  }
  if (downstream.actedFor(record.id)) return { completed: { status: 201, body: { found: true } } };
  return { notExecuted: person };
}

/** A person decides about the first dead effect. */
export function deadLetter(choices: Choices): Step {
  const verdict: DeadVerdict = choices.pick([
    { event: "redrive", doubt: "kept" },
    { event: "redrive", doubt: "cleared" },
    { event: "discard", keepMs: 60_000 },
  ]);
  return {
    what: `a person decides about a dead effect: ${JSON.stringify(verdict)}`,
    kind: "decide",
    mayFail: false,
    async act(hand, { latchkey }) {
      const { outbox } = hand.on.store;
      const filter = { state: "dead", effect: null, tenant: null, limit: 100, after: null } as const;
      const dead = (await outbox?.list(filter)) ?? [];
      const first = dead.toSorted((left, right) => (textOf(left) < textOf(right) ? -1 : 1))[0];
      if (first === undefined || outbox === null) return null;
      const id = latchkey.runtime.ports.random.uuid(0);
      return outbox.decide(
        first.id,
        { ...verdict, attempt: first.fence.attempt },
        { id, actor: "anna", reason: null },
      );
    },
  };
}

function textOf(effect: {
  readonly operation: string;
  readonly key: string;
  readonly input: Uint8Array;
}): string {
  return `${effect.operation} ${effect.key} ${Buffer.from(effect.input).toString("latin1")}`;
}
