/** Reports: deferred work in steps, and with an answer that waits for a delivery, as the processes here do it. */
import type { Effect, EffectOptions, Latchkey, OwnedOperation } from "../../packages/latchkey/src/index.ts";
import type { Receipt, Sent } from "./outbox-receiver.ts";
import type { Queries } from "./outbox-work.ts";

/** Where the process that works on a report may be stopped. `accepted`: its request is kept, and not answered yet. */
export type StopPoint =
  | "accepted"
  | "begun"
  | "in-placed"
  | "before-send"
  | "after-send"
  | "in-settled"
  | "parked"
  | "in-on-delivered";

export interface ReportPlan {
  readonly operation: string;
  /** How it answers: with its last phase, or when a delivery does. */
  readonly answeredBy: "finish" | "delivery";
}

/** What all of a process's reports share. */
export interface Surroundings {
  readonly receiverUrl: string;
  readonly leaseMs: number;
  readonly at: At;
}

export interface Report {
  /** What the receiver knows it by; the delivery of `answeredBy` has a name of its own. */
  readonly name: string;
}

export type At = (point: StopPoint, name: string) => Promise<void>;

export const noticeOf = (name: string) => `${name}, notice`;

export function defineReports<Tx extends Queries>(
  latchkey: Latchkey<Tx>,
  plans: readonly ReportPlan[],
  around: Surroundings,
): ReadonlyMap<string, OwnedOperation<"deferred", Report>> {
  const define = (plan: ReportPlan) => [plan.operation, defineReport(latchkey, plan, around)] as const;
  return new Map(plans.map(define));
}

function defineReport<Tx extends Queries>(
  latchkey: Latchkey<Tx>,
  { operation, answeredBy }: ReportPlan,
  { receiverUrl, leaseMs, at }: Surroundings,
): OwnedOperation<"deferred", Report> {
  const call = latchkey.effect(`${operation}/call`, effectOptions<Tx>(receiverUrl, at));
  const notice: Effect<Report, Receipt> = latchkey.effect(`${operation}/notice`, {
    ...effectOptions<Tx>(receiverUrl, async () => {}),
    async onDelivered({ input: { name }, result, answer, recordId }, tx) {
      await tx.query("insert into noted values ($1)", [name]);
      await at("in-on-delivered", name);
      if (answeredBy === "delivery") answer({ status: 201, body: { recordId, receipt: result.id } });
    },
  });
  return latchkey.operation(operation, {
    execution: "deferred",
    version: "1",
    leaseMs,
    async run({ name }: Report, attempt) {
      await at("begun", name);
      await attempt.phase("placed", async (tx) => {
        await tx.query("insert into placed values ($1)", [name]);
        await at("in-placed", name);
      });
      const receipt = await attempt.call("sent", call, { name });
      const settle = async (tx: Tx) => {
        await tx.query("insert into settled values ($1)", [name]);
        attempt.enqueue(notice, { name: noticeOf(name) });
        await at("in-settled", name);
        return { status: 201, body: { recordId: attempt.id, receipt: receipt.id } };
      };
      if (answeredBy === "finish") return attempt.finish("settled", settle);
      await attempt.phase("settled", settle);
      await at("parked", name);
      return attempt.answeredBy(notice);
    },
  });
}

function effectOptions<Tx>(receiverUrl: string, at: At): EffectOptions<Report, Receipt, Tx> {
  return {
    deduplication: "provider",
    dedupeWindowMs: 24 * 60 * 60 * 1000,
    limits: { timeoutMs: 8_000 },
    delivery: { backoffMs: 50, backoffMaxMs: 200 },
    async execute({ name }, { key }) {
      await at("before-send", name);
      const sent: Sent = { name, reference: key, pid: process.pid, deduplicated: true };
      // It knows no signal, as some clients: who has lost his lease sends all the same.
      const response = await fetch(`${receiverUrl}/send`, { method: "POST", body: JSON.stringify(sent) });
      const receipt = (await response.json()) as Receipt;
      await at("after-send", name);
      return receipt;
    },
  };
}
