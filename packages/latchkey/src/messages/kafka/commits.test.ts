import { expect, test } from "vitest";
import { OffsetCommits, uncommittedMax } from "./commits.ts";

/** Commits that end when the test lets them. */
function heldCommits() {
  const asked: { offset: bigint; succeed: () => void; fail: (error: Error) => void }[] = [];
  const commits = new OffsetCommits(
    (offset) =>
      new Promise<void>((succeed, fail) => {
        asked.push({ offset, succeed, fail });
      }),
  );
  const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
  return { commits, asked, turn, offsets: () => asked.map(({ offset }) => offset) };
}

test("one request at a time; what is settled meanwhile goes with the next one", async () => {
  const { commits, asked, turn, offsets } = heldCommits();
  for (const next of [1n, 2n, 3n]) commits.settled(next);
  expect(offsets()).toEqual([1n]);
  asked[0]?.succeed();
  await turn();
  expect(offsets()).toEqual([1n, 3n]);
  const flushed = commits.flushed();
  asked[1]?.succeed();
  await flushed;
  expect(offsets()).toEqual([1n, 3n]);
});

test("no more than the limit is settled beyond the committed offset", async () => {
  const { commits, asked, turn } = heldCommits();
  for (let next = 1; next < uncommittedMax; next++) commits.settled(BigInt(next));
  await commits.room();
  commits.settled(BigInt(uncommittedMax));
  let free = false;
  const room = commits.room().then(() => {
    free = true;
  });
  await turn();
  expect(free).toBe(false);
  asked[0]?.succeed();
  await room;
});

test("a commit that failed is reported once, and made again with what is settled by then", async () => {
  const { commits, asked, offsets } = heldCommits();
  commits.settled(1n);
  const flushed = commits.flushed();
  asked[0]?.fail(new Error("rebalancing"));
  await expect(flushed).rejects.toThrow("rebalancing");
  commits.settled(2n);
  const again = commits.flushed();
  expect(offsets()).toEqual([1n, 2n]);
  asked[1]?.succeed();
  await again;
});
