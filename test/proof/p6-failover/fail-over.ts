/** One failover under load: traffic, faults, the primary's end, the standby's promotion, and traffic again. */
import { isCommit, isCommitReply } from "../../support/postgres-messages.ts";
import type { Pair } from "./pair.ts";
import type { Plan } from "./plan.ts";
import type { ProcessGroup } from "./process-group.ts";

export interface FailOver {
  /** Faults that took place, by kind. */
  readonly faults: Readonly<Record<string, number>>;
  /** Keys that had an answer before the primary died. */
  readonly answered: readonly string[];
  /** From the primary's death until every client has got an answer again in every mode. */
  readonly outageMs: number;
}

const warmUp = 2;
const afterwards = 1;
/** Until some COMMIT comes by. */
const holdMs = 60_000;
/** Rounds of cancelling: whoever finds out about a cancelled wait waits again. */
const cancellations = 3;

/** When it returns, every key that a client has begun is answered, and the old primary is gone. */
export async function failOver(pair: Pair, crew: ProcessGroup, round: string, plan: Plan): Promise<FailOver> {
  const faults: Record<string, number> = {};
  const fault = (kind: string, count = 1) => {
    faults[kind] = (faults[kind] ?? 0) + count;
  };
  crew.begin(round);
  await crew.untilAnswered(round, warmUp);
  const commit = plan.holdCommit ? pair.front.holdWhen(isCommit) : null;
  await commit?.held(holdMs);
  if (commit !== null) fault("COMMIT held until the primary was dead");
  const reply = plan.holdReply ? pair.front.holdReplyWhen(isCommitReply) : null;
  await reply?.held(holdMs);
  if (reply !== null) fault("COMMIT's confirmation lost");
  await disturb(pair, crew, round, plan, fault);
  const answered = crew.answeredIn(round);
  const diedMs = performance.now();
  const old = pair.primary;
  if (plan.end === "kill") {
    await old.kill9();
    fault("primary killed");
  }
  commit?.drop();
  reply?.drop();
  await pair.failOver();
  if (plan.end === "promote-first") {
    fault("promoted while the old primary ran");
    await old.kill9();
  }
  await crew.untilAnswered(round, 1);
  const outageMs = performance.now() - diedMs;
  await crew.untilAnswered(round, afterwards);
  await crew.rest();
  await pair.renew(old);
  return { faults, answered, outageMs };
}

async function disturb(
  pair: Pair,
  crew: ProcessGroup,
  round: string,
  { link, waits }: Plan,
  fault: (kind: string, count?: number) => void,
): Promise<void> {
  switch (link) {
    case "flows":
      return;
    case "cut":
      await pair.replication.cut();
      fault("replication cut");
      break;
    case "stall-down":
      pair.replication.stall("down");
      fault("replication stalled");
      break;
    case "stall-up":
      pair.replication.stall("up");
      fault("standby silent");
      break;
    default:
      link satisfies never;
  }
  if (!pair.synchronous) {
    // Nobody waits for the standby, so answers go on, and these will be lost.
    await crew.untilAnswered(round, 2);
    return;
  }
  const names = crew.names();
  await pair.untilWaiting(names);
  fault("COMMITs waited for the standby at the end");
  if (waits === "left") return;
  for (let count = 0; count < cancellations; count++) {
    await pair.untilWaiting(names);
    fault(
      waits === "cancel" ? "wait for the standby cancelled" : "waiting session terminated",
      await pair.endWaits(waits),
    );
  }
}
