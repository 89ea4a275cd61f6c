/** That each judgement of the soak can fail: made-up observations, right but for one thing. */
import { describe, expect, test } from "vitest";
import type { Answered } from "../harness/linearizable.ts";
import { type Observed, type Row, violationsOf } from "./check.ts";
import type { Send } from "./downstream.ts";
import { type Body, ClientLog, type ClientReply, type KeyName, textOfKey } from "./history.ts";
import { nameOf } from "./work.ts";

const name: KeyName = { route: "order", tenant: "north", key: "k" };
const row: Row = { ...name, body: "a", execution: "e1" };
const answered = (answer: string, kind: "executed" | "replay" = "replay"): Answered => ({ kind, answer });

function replied(is: Answered, details: Partial<ClientReply> = {}): ClientReply {
  return { answered: is, status: 201, execution: "e1", body: "a", ...details };
}

function sendOf(what: "notice" | "ping", more: Partial<Send> = {}): Send {
  const deduplicated = what === "notice";
  return { name: nameOf(name, what), reference: what, input: "i", deduplicated, server: "s", ...more };
}

interface Result {
  readonly body: Body;
  readonly replied: ClientReply;
}

const right: readonly Result[] = [
  { body: "a", replied: replied(answered("one", "executed")) },
  { body: "a", replied: replied(answered("one")) },
];

/** One key of which everything is as it must be, changed in one place. */
function seen(
  results: readonly Result[] = right,
  change: Partial<Observed> = {},
  of: KeyName = name,
): Observed {
  const log = new ClientLog();
  for (const one of results)
    log.begin(of, "c", { kind: "submit", fingerprint: one.body }, "s", one.body)(one.replied);
  const last = results.at(-1)?.replied;
  return {
    log,
    last: new Map(last === undefined ? [] : [[textOfKey(of), last]]),
    business: [row],
    settled: [],
    noted: [nameOf(name, "notice")],
    arrivals: [sendOf("notice"), sendOf("ping")],
    effects: new Map([
      [nameOf(name, "notice"), 1],
      [nameOf(name, "ping"), 1],
    ]),
    dead: new Set(),
    ...change,
  };
}

const found = (observed: Observed) => violationsOf(observed).map(({ invariant }) => invariant);

test("what is right is found right", () => {
  expect(found(seen())).toEqual([]);
});

const inProgress = replied({ kind: "in_progress" }, { execution: null, body: null });
const misuse = replied({ kind: "misuse" }, { execution: null, body: null });
const undone = replied({ kind: "retryable" }, { status: 500, execution: "e1", body: null });
const pay: KeyName = { ...name, route: "pay" };
const charge: KeyName = { ...name, route: "charge" };

describe("what is wrong is found", () => {
  const cases: readonly (readonly [invariant: string, what: string, observed: Observed])[] = [
    ["I1", "two rows", seen(right, { business: [row, { ...row, execution: "e2" }] })],
    ["I1", "a row that nobody asked for", seen(right, { business: [row, { ...row, key: "other" }] })],
    ["I2", "another body's answer", seen([...right, { body: "b", replied: replied(answered("one")) }])],
    ["I3", "another answer", seen([...right, { body: "a", replied: replied(answered("two")) }])],
    [
      "I7",
      "a send twice without de-duplication",
      seen(right, { arrivals: [sendOf("ping"), sendOf("ping")] }),
    ],
    [
      "I7",
      "another downstream key",
      seen(right, { arrivals: [sendOf("notice"), sendOf("notice", { reference: "other" })] }),
    ],
    ["I7", "another input", seen(right, { arrivals: [sendOf("notice"), sendOf("notice", { input: "j" })] })],
    ["I7", "two effects", seen(right, { effects: new Map([[nameOf(name, "notice"), 2]]) })],
    ["I8", "a row that was reported as undone", seen([{ body: "a", replied: undone }, ...right])],
    ["I9", "an effect of what never committed", seen([{ body: "b", replied: misuse }], { business: [] })],
    [
      "I9",
      "a delivery that was noted twice",
      seen(right, { noted: [nameOf(name, "notice"), nameOf(name, "notice")] }),
    ],
    ["I10", "a first step without a last one", seen(right, { business: [{ ...row, ...charge }] }, charge)],
    [
      "I10",
      "a last step twice",
      seen(
        right,
        { business: [{ ...row, ...charge }], settled: [row, row].map((one) => ({ ...one, ...charge })) },
        charge,
      ),
    ],
    ["I14", "misuse of a key that nobody else has used", seen([{ body: "b", replied: misuse }, ...right])],
    ["I14", "in progress where nobody runs", seen([{ body: "a", replied: inProgress }, ...right])],
    ["I15", "an answer without its row", seen(right, { business: [] })],
    ["I15", "an answer of another run", seen(right, { business: [{ ...row, execution: "e2" }] })],
    ["I15", "no answer any more", seen([...right, { body: "a", replied: misuse }])],
    ["L2", "an effect that was never delivered", seen(right, { arrivals: [], effects: new Map() })],
  ];
  test.each(cases)("%s: %s", (invariant, _, observed) => {
    expect(found(observed)).toContain(invariant);
  });
});

test("in steps a worker may be what runs", () => {
  const observed = seen([{ body: "a", replied: inProgress }, ...right], {}, charge);
  expect(found(observed)).not.toContain("I14");
});

test("a dead effect is no loss, and a route without effects has none", () => {
  const given = seen(right, {
    dead: new Set([nameOf(name, "notice")]),
    noted: [],
    effects: new Map([[nameOf(name, "ping"), 1]]),
  });
  expect(found(given)).toEqual([]);
  expect(
    found(seen(right, { business: [{ ...row, route: "pay" }], arrivals: [], effects: new Map() }, pay)),
  ).toEqual([]);
});
