import { describe, test } from "vitest";
import { memorySubject } from "../../packages/latchkey/src/testing/http-conformance/memory-subject.ts";
import { httpConformance } from "../../packages/latchkey/src/testing/http-conformance.ts";
import { frameworks } from "./apps.ts";

for (const { name, seesFieldLines, serve } of frameworks) {
  describe(`${name} keeps the HTTP protocol, on the memory store`, () => {
    httpConformance({ test, seesFieldLines, store: memorySubject, serve });
  });
}
