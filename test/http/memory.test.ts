import { describe, test } from "vitest";
import { memorySubject } from "../../packages/latchkey/src/testing/http-conformance/memory-subject.ts";
import { httpConformance } from "../../packages/latchkey/src/testing/http-conformance.ts";
import { frameworks, recordedExpress } from "./apps.ts";

for (const { name, seesFieldLines, serve } of frameworks) {
  describe(`${name} keeps the HTTP protocol, on the memory store`, () => {
    httpConformance({ test, seesFieldLines, store: memorySubject, serve });
  });
}

describe("a mount that records keeps the HTTP protocol, as far as a lease goes", () => {
  const { seesFieldLines, serve } = recordedExpress;
  const noAttempt = "handlers behind a mount are not given an attempt";
  httpConformance({
    test: (name, body) => (name.endsWith("(lease)") ? test(name, body) : undefined),
    seesFieldLines,
    mounts: true,
    status: true,
    store: memorySubject,
    serve,
    skip: {
      "failures: a lease whose handler proves that nothing happened is released":
        "Express answers a throw with a 500",
      "failures: a refusal is kept with its writes, unless the handler declines to": noAttempt,
    },
  });
});
