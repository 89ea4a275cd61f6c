import { describe, test } from "vitest";
import { httpConformance } from "../../packages/latchkey-conformance/src/http-conformance.ts";
import { recordedExpress } from "../registry/frameworks/express/suite.ts";
import { memorySubject } from "../support/memory-subject.ts";
import { isThorough } from "../support/thorough.ts";
import { apps } from "./apps.ts";

/** One of each adapter; with `npm run test:all` each version, and with parsers of bodies. */
const chosen = apps.filter(({ oneOfItsKind }) => isThorough || oneOfItsKind);

/** Most are shown under a transaction and under a lease; by default under both with the first adapter only. */
const once = (name: string, body: () => Promise<void>) =>
  name.endsWith("(lease)") ? undefined : test(name, body);

for (const [index, { name, seesFieldLines, serve }] of chosen.entries()) {
  describe(`${name} keeps the HTTP protocol, on the memory store`, () => {
    httpConformance({
      test: isThorough || index === 0 ? test : once,
      seesFieldLines,
      store: memorySubject,
      serve,
    });
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
      "failures: a lease is released if its handler proves that nothing happened":
        "Express answers a throw with a 500",
      "acp: a handler under a lease that throws is not run again, though the protocol would allow it":
        "Express answers a throw with a 500",
      "failures: a refusal is stored with its writes, unless the handler declines to": noAttempt,
    },
  });
});
