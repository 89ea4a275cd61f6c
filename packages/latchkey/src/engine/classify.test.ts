import { describe, expect, test } from "vitest";
import { type Answered, classifyAnswer, type Disposition } from "./classify.ts";

const rows: readonly (readonly [
  status: number,
  serverErrors: Answered["serverErrors"],
  transaction: Disposition,
  lease: Disposition,
])[] = [
  ...[200, 201, 204, 302, 303, 400, 402, 404, 409, 410, 422, 451, 499].flatMap((status) =>
    (["by-outcome", "store", "release"] as const).map((policy) => [status, policy, "keep", "keep"] as const),
  ),
  ...[408, 425, 429].flatMap((status) =>
    (["by-outcome", "store", "release"] as const).map(
      (policy) => [status, policy, "release", "release"] as const,
    ),
  ),
  ...[500, 502, 503, 599].flatMap(
    (status) =>
      [
        [status, "by-outcome", "release", "doubt"],
        [status, "store", "keep_answer_only", "keep"],
        [status, "release", "release", "release"],
      ] as const,
  ),
];

describe("an answer", () => {
  test.each(rows)(
    "of %d under %s: %s in a transaction, %s under a lease or deferred",
    (status, serverErrors, transaction, lease) => {
      const answered = { status, serverErrors, declined: false };
      expect(classifyAnswer({ ...answered, execution: "transaction" })).toBe(transaction);
      expect(classifyAnswer({ ...answered, execution: "lease" })).toBe(lease);
      expect(classifyAnswer({ ...answered, execution: "deferred" })).toBe(lease);
    },
  );

  test.each(rows)("of %d under %s that the handler declined to store is released", (status, serverErrors) => {
    for (const execution of ["transaction", "lease", "deferred"] as const) {
      expect(classifyAnswer({ status, serverErrors, execution, declined: true })).toBe("release");
    }
  });
});
