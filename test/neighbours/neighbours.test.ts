/** What real services have around a protected route, one neighbour at a time. The judge says what must hold. */
import { describe, expect, test } from "vitest";
import { isThorough } from "../support/thorough.ts";
import { accounts } from "./accounts.ts";
import { callers } from "./callers.ts";
import { headers } from "./headers.ts";
import { type AnyNeighbour, judge } from "./judge.ts";
import { limits } from "./limits.ts";
import { loggers } from "./loggers.ts";
import { nestParts } from "./nest-parts.ts";
import { schemas } from "./schemas.ts";
import { sessions } from "./sessions.ts";
import { frontEnds, type NeighbourName, table } from "./table.ts";
import { answerKinds, type Execution } from "./world.ts";

const neighbours: Readonly<Record<NeighbourName, AnyNeighbour>> = {
  ...headers,
  ...sessions,
  ...accounts,
  ...loggers,
  ...limits,
  ...nestParts,
  ...schemas,
  ...callers,
};

/** `npm test` shows the execution in which a fault costs most. */
const executions: readonly Execution[] = isThorough ? ["transaction", "lease"] : ["lease"];

describe.each(Object.entries(neighbours))("%s", (name, neighbour) => {
  const answers = neighbour.answers ?? answerKinds;
  const cases = frontEnds
    .filter((frontEnd) => neighbour.on[frontEnd] !== undefined)
    .flatMap((frontEnd) => executions.map((execution) => ({ frontEnd, execution })))
    .flatMap((each) => (isThorough ? answers : answers.slice(0, 1)).map((answer) => ({ ...each, answer })));

  test.each(cases)("$frontEnd, $execution, $answer", async ({ frontEnd, execution, answer }) => {
    await judge({ frontEnd, neighbour, execution, answerKind: answer });
  });

  test("is mounted where the table says", () => {
    expect(new Set(Object.keys(neighbour.on))).toEqual(new Set(table[name as NeighbourName].on));
  });
});
