import { expect, test } from "vitest";
import type { Hint } from "../stores/hints.ts";
import { createCommitHints } from "./commit-hints.ts";

test("a hint reaches this process at once, and then other processes", () => {
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

test("a listener that is added twice is called twice, and each is removed separately", () => {
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

test("a listener that throws does not stop the others", () => {
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
