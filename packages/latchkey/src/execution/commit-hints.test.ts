import { expect, test } from "vitest";
import type { Hint } from "../stores/hints.ts";
import { createCommitHints } from "./commit-hints.ts";

test("a hint reaches this process at once, and then other processes", () => {
  const sent: Hint[] = [];
  const wake = createCommitHints({ send: (hint) => sent.push(hint), listen: async () => async () => {} });
  const received: string[] = [];
  const stop = wake.listen((hint) => received.push(`one ${hint}`));
  wake.listen((hint) => received.push(`two ${hint}`));
  wake.send("effects");
  stop();
  stop();
  wake.send("pending");
  expect(received).toEqual(["one effects", "two effects", "two pending"]);
  expect(sent).toEqual(["effects", "pending"]);
});

test("a listener that is added twice is called twice, and each is removed separately", () => {
  const wake = createCommitHints(null);
  let received = 0;
  const onHint = () => {
    received += 1;
  };
  const stop = wake.listen(onHint);
  wake.listen(onHint);
  wake.send("effects");
  expect(received).toBe(2);
  stop();
  wake.send("effects");
  expect(received).toBe(3);
});

test("a listener that throws does not stop the others", () => {
  const fail = () => {
    throw new Error("deaf");
  };
  const wake = createCommitHints({ send: fail, listen: async () => async () => {} });
  let received = 0;
  wake.listen(fail);
  wake.listen(() => {
    received += 1;
  });
  wake.send("effects");
  expect(received).toBe(1);
});
