import { expect, test } from "vitest";
import { nodeProblem } from "./node-version.ts";

test.each(["22.3.0", "23.0.0", "24.21.0", "100.1.2", undefined, "not a version"])(
  "%s is no problem",
  (version) => {
    expect(nodeProblem(version)).toBeNull();
  },
);

test.each(["22.2.0", "21.7.3", "20.19.0", "8.0.0"])("%s is too old", (version) => {
  expect(nodeProblem(version)).toContain(`runs on Node ${version}`);
});
