/** What real services have around a protected route, one neighbour at a time. The judge says what must hold. */
import { describe, expect, test } from "vitest";
import { frameworks } from "../registry/frameworks.ts";
import { isThorough } from "../support/thorough.ts";
import { accounts } from "./accounts.ts";
import { callers } from "./callers.ts";
import { headers } from "./headers.ts";
import { judge } from "./judge.ts";
import { limits } from "./limits.ts";
import { loggers } from "./loggers.ts";
import { schemas } from "./schemas.ts";
import { sessions } from "./sessions.ts";
import type { NeighbourName, Traits } from "./table.ts";
import { answerKinds, type Execution } from "./world.ts";

const neighbours: Traits<NeighbourName> = {
  ...headers,
  ...sessions,
  ...accounts,
  ...loggers,
  ...limits,
  nestParts: {},
  ...schemas,
  ...callers,
};

/** `npm test` shows the execution in which a fault costs most. */
const executions: readonly Execution[] = isThorough ? ["transaction", "lease"] : ["lease"];

const frontEnds = await Promise.all(
  frameworks.map(async ({ variants, neighbours }) => {
    const mounted = (await neighbours()).neighbours;
    return Object.entries(variants).map(([frontEnd, variant]) => ({
      frontEnd,
      named: variant.neighbours,
      starts: mounted[frontEnd] ?? {},
    }));
  }),
);

describe.each(Object.entries(neighbours))("%s", (entry, neighbour) => {
  const name = entry as NeighbourName;
  const cases = frontEnds.flat().flatMap(({ frontEnd, starts: { [name]: start } }) => {
    if (start === undefined) return [];
    const answers = neighbour.answers ?? answerKinds;
    const answered = isThorough ? answers : answers.slice(0, 1);
    return executions.flatMap((execution) =>
      answered.map((answer) => ({ frontEnd, start, execution, answer })),
    );
  });

  test.each(cases)("$frontEnd, $execution, $answer", async ({ start, execution, answer }) => {
    await judge({ start, neighbour, execution, answerKind: answer });
  });

  test("is mounted where the registry names it", () => {
    const named = frontEnds.flat().filter((each) => each.named[name] !== undefined);
    expect(cases.map(({ frontEnd }) => frontEnd)).toEqual(
      expect.arrayContaining(named.map(({ frontEnd }) => frontEnd)),
    );
    expect(new Set(cases.map(({ frontEnd }) => frontEnd)).size).toBe(named.length);
  });
});
