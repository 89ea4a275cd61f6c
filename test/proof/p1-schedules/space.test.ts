/** What leads from one place to another does so for each question by itself. */
import { expect, test } from "vitest";
import { nothing } from "./shared.ts";
import { Space } from "./space.ts";
import { configurationNamed } from "./work.ts";

test("time goes as far as it is asked to, whoever asked first", () => {
  const space = new Space(configurationNamed("transaction").plan, null);
  const place = space.place(nothing);
  expect(space.afterTime(place, 60_000).shared.now).toBe(nothing.now + 60_000);
  expect(space.afterTime(place, 3_000).shared.now).toBe(nothing.now + 3_000);
});
