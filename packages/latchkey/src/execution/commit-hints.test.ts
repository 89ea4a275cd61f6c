import { expect, test } from "vitest";
import type { Hint } from "../stores/hints.ts";
import { createCommitHints } from "./commit-hints.ts";

test("a hint is heard at once in this process, and goes on to the others", () => {
  const sent: Hint[] = [];
  const wake = createCommitHints({ send: (hint) => sent.push(hint), listen: async () => async () => {} });
  const heard: string[] = [];
  const stop = wake.listen((hint) => heard.push(`one ${hint}`));
  wake.listen((hint) => heard.push(`two ${hint}`));
  wake.send("effects");
  stop();
  stop();
  wake.send("pending");
  expect(heard).toEqual(["one effects", "two effects", "two pending"]);
  expect(sent).toEqual(["effects", "pending"]);
});

test("one that listens twice is told twice, and stops once for each", () => {
  const wake = createCommitHints(null);
  let heard = 0;
  const hear = () => {
    heard += 1;
  };
  const stop = wake.listen(hear);
  wake.listen(hear);
  wake.send("effects");
  expect(heard).toBe(2);
  stop();
  wake.send("effects");
  expect(heard).toBe(3);
});

test("whoever throws stops nobody", () => {
  const fail = () => {
    throw new Error("deaf");
  };
  const wake = createCommitHints({ send: fail, listen: async () => async () => {} });
  let heard = 0;
  wake.listen(fail);
  wake.listen(() => {
    heard += 1;
  });
  wake.send("effects");
  expect(heard).toBe(1);
});
