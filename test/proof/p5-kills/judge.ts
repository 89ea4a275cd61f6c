/** Whether everything that must hold holds, by what independent observers have seen. */
import { judgeHistory } from "./edges.ts";
import { judgeDeliveries } from "./judge-deliveries.ts";
import { judgeSends, sendsOf, wasInDoubt } from "./judge-sends.ts";
import type { Seen } from "./observers.ts";
import type { Reply } from "./reply.ts";
import type { Story } from "./story.ts";
import { hold } from "./violation.ts";

/** @throws {Violation} */
export function judge(story: Story): void {
  judgeClients(story);
  judgeHistory(story.end);
  judgeBusiness(story);
  judgeSends(story);
  judgeDeliveries(story);
  judgeSteps(story);
}

function judgeClients(story: Story): void {
  const { replies, repliesBefore, wreck, acknowledged, misuse, ofMisuse } = story;
  const [before, after] = acknowledged;
  for (const one of replies) {
    hold("L1", one.kind !== "refused", `a client was refused: ${JSON.stringify(one)}`);
    hold("I2", one.kind !== "key_misuse" && one.kind !== "expired", `a client got ${one.kind}`);
  }
  const kept = replies.slice(0, repliesBefore).some(({ kind }) => kind === "answer" || kind === "accepted");
  hold("I15", !kept || wreck.record !== null, "a client was notified of a result that is not stored");
  const answers = new Set(replies.flatMap((one) => (one.kind === "answer" ? [one.bytes] : [])));
  hold("I3", answers.size <= 1, `clients were given ${answers.size} answers: ${[...answers].join(" and ")}`);
  const first = replies.findIndex(({ kind }) => kind === "answer");
  const later = first < 0 ? [] : replies.slice(first);
  hold(
    "I15",
    later.every(({ kind }) => kind === "answer"),
    "an acknowledged answer was lost",
  );
  const executed = replies.filter((one) => one.kind === "answer" && one.how === "executed").length;
  hold("I1", executed <= 1, `${executed} clients got the reply that their request was executed`);
  hold(
    "I15",
    bytesOf(before) !== null && bytesOf(before) === bytesOf(after),
    "an acknowledged answer was lost",
  );
  hold("I2", misuse.kind === "key_misuse", `another order under the same key got ${misuse.kind}`);
  const trace = ofMisuse.placed + ofMisuse.settled + ofMisuse.arrivals;
  hold("I2", trace === 0, "another order under the same key ran");
}

function bytesOf(reply: Reply): string | null {
  return reply.kind === "answer" ? reply.bytes : null;
}

/** The state that it has come to, and what that means for the business. */
function judgeBusiness(story: Story): void {
  const { mode, end, replies, order } = story;
  const state = end.record?.state ?? "none";
  const { shape } = mode;
  const effects = sendsOf(story).filter(({ became }) => became === "effect").length;
  const rows = { placed: end.placed, settled: end.settled, effects };
  const what = `${order.name} is ${state} with ${JSON.stringify(rows)}`;
  hold("I1", end.placed <= 1 && end.settled <= 1 && effects <= 1, what);
  const last = replies.at(-1);
  switch (state) {
    case "completed":
      hold("I1", end.placed === count(shape.placed) && end.settled === count(shape.settled), what);
      hold("I1", effects === count(shape.call !== null), what);
      hold(
        "I3",
        last?.kind === "answer" && last.bytes.includes('"status":201'),
        `${what}: ${JSON.stringify(last)}`,
      );
      break;
    case "failed":
      hold("I1", shape.call === "close" && wasInDoubt(story) && effects === 0, what);
      hold("I1", end.placed === 1 && end.settled === 0, what);
      hold(
        "I3",
        last?.kind === "answer" && last.bytes.includes('"status":502'),
        `${what}: ${JSON.stringify(last)}`,
      );
      break;
    case "unknown":
      hold("L3", end.record?.waitsForPerson === true && last?.kind === "unknown", what);
      hold("L3", mayStayUnknown(story, effects), `${what}, and could be known`);
      hold("I1", end.placed === count(shape.placed) && end.settled === 0, what);
      break;
    default:
      hold("L1", false, what);
  }
}

const count = (there: boolean) => (there ? 1 : 0);

function mayStayUnknown(story: Story, effects: number): boolean {
  const { shape, operation } = story.mode;
  const late = sendsOf(story).some((arrival) => arrival.late);
  const asked = effects === 1 && !late;
  switch (shape.call) {
    case "bare":
      return operation !== "bare lookup" || !asked;
    case "lookup":
      return wasInDoubt(story) && !asked;
    case "none":
      return wasInDoubt(story);
    default:
      return false;
  }
}

/** What was finished when the process died is not done again. */
function judgeSteps({ wreck, ran }: Story): void {
  for (const { name, state } of wreck.steps) {
    hold("I10", state !== "finished" || !ran.includes(name), `finished step ${name} ran again`);
  }
  if (isFinal(wreck)) hold("I1", ran.length === 0, `${ran.join(", ")} ran after the answer was kept`);
}

function isFinal({ record }: Seen): boolean {
  return record?.state === "completed" || record?.state === "failed";
}
