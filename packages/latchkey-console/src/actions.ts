/** People's decisions. Each returns the result, or a refusal in sentences. */
import type { Operator, Outcome, QueueFilter } from "latchkey/operator";
import type { JobItem, JobResult, Jobs } from "./jobs.ts";
import { bulkActionOf, type Fields, filterOf, oneOf, outcomeOf, queueOf, textOf } from "./queries.ts";
import { badRequest, json } from "./replies.ts";
import type { BulkAction, QueueQuery, RecordView } from "./wire.ts";

export interface ActionContext {
  readonly operator: Operator;
  readonly jobs: Jobs;
  /** The person who decides. */
  readonly name: string;
}

export async function settleOne({ operator, name }: ActionContext, fields: Fields): Promise<Response> {
  const seen = seenOf(fields);
  const by = { operator: name, reason: textOf(fields, "reason") };
  const settled = await operator.settle(seen, outcomeOf(fields), by);
  return json(settled.kind === "settled" ? 200 : 409, settled);
}

export async function forgetOne({ operator, name }: ActionContext, fields: Fields): Promise<Response> {
  const { mayRunAgain = false } = fields;
  if (typeof mayRunAgain !== "boolean") throw badRequest("mayRunAgain must be true or false.");
  const by = { operator: name, reason: textOf(fields, "reason") };
  const forgotten = await operator.forget(seenOf(fields), by, { mayRunAgain });
  return json(forgotten.kind === "done" ? 200 : 409, forgotten);
}

export async function retryOne({ operator, name }: ActionContext, fields: Fields): Promise<Response> {
  const by = { operator: name, reason: textOf(fields, "reason") };
  const retried = await operator.retry(seenOf(fields), by);
  return json(retried.kind === "done" ? 200 : 409, retried);
}

/** The record in the version that the page showed. */
function seenOf(fields: Fields) {
  const { attempt } = fields;
  if (typeof attempt !== "number") throw badRequest("attempt must be a number.");
  return { recordId: textOf(fields, "recordId"), attempt };
}

export async function decideOne({ operator, name }: ActionContext, fields: Fields): Promise<Response> {
  const by = { operator: name, reason: textOf(fields, "reason") };
  const decision = decisionOf(fields);
  const decided = await operator.decide(textOf(fields, "death"), decision, by);
  return json(decided.kind === "decided" ? 200 : 409, decided);
}

function decisionOf(fields: Fields) {
  const decision = oneOf(fields.decision, ["redrive", "discard"], "decision");
  return decision === "discard"
    ? { decision }
    : { decision, doubt: oneOf(fields.doubt, ["kept", "cleared"], "doubt") };
}

/** Looks up all matching entries, and stores them for `runJob`. */
export async function checkJob(context: ActionContext, fields: Fields): Promise<Response> {
  const { operator, jobs, name } = context;
  const reason = textOf(fields, "reason");
  const action = bulkActionOf(fields);
  const queue = queueOf(fields);
  const filter = filterOf(fields);
  if (!actionsOn[queue].some((kind) => kind === action.kind)) {
    throw badRequest(
      "Unknown records can be settled or retried, retryable records can be retried; effects and messages can be redriven or discarded.",
    );
  }
  const by = { operator: name, reason };
  const { items, more } =
    queue === "unknown" || queue === "retryable"
      ? await recordItems(operator, queue, filter, action, by)
      : await deadItems(operator, queue, filter, action, by);
  return json(200, jobs.check({ operator: name, reason, items, more }));
}

export function runJob({ jobs, name }: ActionContext, id: string, fields: Fields): Response {
  const { count } = fields;
  if (typeof count !== "number") throw badRequest("count must be a number.");
  return json(200, jobs.run(id, name, count));
}

type By = { readonly operator: string; readonly reason: string };

const actionsOn = {
  unknown: ["settle", "retry"],
  retryable: ["retry"],
  effect: ["redrive", "discard"],
  message: ["redrive", "discard"],
} as const satisfies Readonly<Record<QueueQuery["queue"], readonly BulkAction["kind"][]>>;

async function recordItems(
  operator: Operator,
  state: "unknown" | "retryable",
  filter: QueueFilter,
  action: BulkAction,
  by: By,
) {
  const { items, more } = await operator.everyRecord(state, filter);
  const itemOf = action.kind === "retry" ? retryItem : settleItem;
  return { items: items.map((record) => itemOf(operator, record, action, by)), more };
}

function retryItem(operator: Operator, record: RecordView, _: BulkAction, by: By): JobItem {
  return {
    name: record.key,
    async run() {
      const retried = await operator.retry({ recordId: record.id, attempt: record.attempt }, by);
      return retried.kind === "done" ? null : { title: retried.title, detail: retried.detail };
    },
  };
}

function settleItem(operator: Operator, record: RecordView, action: BulkAction, by: By): JobItem {
  return {
    name: record.key,
    async run() {
      const seen = { recordId: record.id, attempt: record.attempt };
      const outcome = await bulkOutcome(operator, record.id, action);
      if ("title" in outcome) return outcome;
      const settled = await operator.settle(seen, outcome, by);
      return settled.kind === "settled" ? null : { title: settled.title, detail: settled.detail };
    },
  };
}

/** Each record has its own call in doubt. */
async function bulkOutcome(
  operator: Operator,
  id: string,
  action: BulkAction,
): Promise<Outcome | Exclude<JobResult, null>> {
  if (action.kind !== "settle") throw badRequest("Only records can be settled.");
  if (action.outcome === "failed") return { outcome: "failed", answer: { status: action.status } };
  const { proof } = action;
  const found = await operator.inspect(id);
  const choices = found.kind === "record" ? found.report.choices : [];
  const call = choices.find(({ action: one }) => one.kind === "settle" && one.outcome === "call")?.action;
  const downstreamKey = call !== undefined && "downstreamKey" in call ? call.downstreamKey : null;
  const isUnknown = found.kind === "record" && found.report.state === "unknown";
  // A record that is no longer unknown is refused with the name of the person who was faster.
  if (proof === "closed-downstream" && downstreamKey === null && isUnknown) {
    return {
      title: "Not settled. The record has no call in doubt.",
      detail: "The other service can only close a call. Settle it on your own knowledge, or one by one.",
    };
  }
  return { outcome: "not-executed", proof, downstreamKey };
}

async function deadItems(
  operator: Operator,
  kind: "effect" | "message",
  filter: QueueFilter,
  action: BulkAction,
  by: By,
) {
  if (action.kind !== "redrive" && action.kind !== "discard")
    throw badRequest("Effects and messages can only be redriven or discarded.");
  const decision =
    action.kind === "discard"
      ? ({ decision: "discard" } as const)
      : ({ decision: "redrive", doubt: action.doubt } as const);
  const { items, more } = await operator.everyDead(kind, filter);
  const jobs = items.map(
    ({ name }): JobItem => ({
      name,
      async run() {
        const decided = await operator.decide(name, decision, by);
        return decided.kind === "decided" ? null : { title: decided.title, detail: decided.detail };
      },
    }),
  );
  return { items: jobs, more };
}
