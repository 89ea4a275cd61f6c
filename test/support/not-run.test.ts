import { expect, it, onTestFinished, vi } from "vitest";
import { collectNotRun, notRun } from "./not-run.ts";

it("lists at the end, one per line, what could not be run", () => {
  vi.stubEnv("CI", "");
  vi.stubEnv("LATCHKEY_TEST_NOT_RUN", undefined);
  const written: string[] = [];
  vi.spyOn(process.stderr, "write").mockImplementation((text) => written.push(String(text)) > 0);
  onTestFinished(() => {
    vi.restoreAllMocks();
    vi.unstubAllEnvs();
  });
  const summarise = collectNotRun();
  const nested = collectNotRun();
  notRun("the model", "spin is not installed");
  notRun("Kafka", "no kcat");
  notRun("the model", "spin is not installed");
  nested();
  expect(written).toEqual([]);
  summarise();
  expect(written.join("")).toBe(
    "\nNot run on this machine:\n  - Kafka (no kcat)\n  - the model (spin is not installed)\n",
  );
});

it("prints nothing if everything was run", () => {
  vi.stubEnv("LATCHKEY_TEST_NOT_RUN", undefined);
  const write = vi.spyOn(process.stderr, "write");
  onTestFinished(() => {
    vi.restoreAllMocks();
    vi.unstubAllEnvs();
  });
  collectNotRun()();
  expect(write).not.toHaveBeenCalled();
});
