import { describe, test } from "vitest";
import { memorySubject } from "../../../test/support/memory-subject.ts";
import { memoryStore } from "../../latchkey/src/stores/memory.ts";
import { storeConformance } from "./index.ts";

describe("the memory store keeps the store contract", () => {
  storeConformance({
    test,
    clock: "frozen",
    capabilities: memoryStore().capabilities,
    factory: memorySubject,
  });
});
