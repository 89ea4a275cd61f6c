import { expect, test } from "vitest";
import { NotExecuted } from "../errors.ts";
import { defineEffect } from "./define-effect.ts";
import { judge } from "./run-effect.ts";

const execute = async () => 1;
const lookup = async () => null;
const close = async () => ({ closed: true }) as const;

test.each([
  [{}, "deduplication"],
  [{ deduplication: "maybe" }, "deduplication"],
  [{ deduplication: "provider" }, "dedupeWindowMs"],
  [{ deduplication: "provider", dedupeWindowMs: 0 }, "dedupeWindowMs"],
  [{ deduplication: "provider", dedupeWindowMs: 1, lookup }, "lookup"],
  [{ deduplication: "lookup" }, "lookup"],
  [{ deduplication: "lookup", lookup, dedupeWindowMs: 1 }, "dedupeWindowMs"],
  [{ deduplication: "lookup", lookup, reopen: true }, "reopen"],
  [{ deduplication: "none", close }, "none"],
  [{ deduplication: "none", execute: 1 }, "execute"],
  [{ deduplication: "none", isRefused: 1 }, "isRefused"],
  [{ deduplication: "none", retry: { attempts: 0 } }, "attempts"],
  [{ deduplication: "none", retry: { backoffMs: 2 ** 31 } }, "times"],
  [{ deduplication: "none", limits: { concurrency: 1.5 } }, "concurrency"],
  [{ deduplication: "none", limits: { perSecond: 0 } }, "perSecond"],
  [{ deduplication: "none", delivery: { attemptsMax: 0 } }, "attemptsMax"],
  [{ deduplication: "none", delivery: { backoffMs: -1 } }, "backoffMs"],
  [{ deduplication: "none", delivery: { backoffMaxMs: 1.5 } }, "backoffMaxMs"],
  [{ deduplication: "none", delivery: { keepMs: Number.NaN } }, "keepMs"],
  [{ deduplication: "none", delivery: { keepMs: -1 } }, "keepMs"],
  [{ deduplication: "none", delivery: { ordered: 1 } }, "ordered"],
  [{ deduplication: "none", onDelivered: {} }, "onDelivered"],
])("refuses %j", (options, message) => {
  expect(() => defineEffect("e", { execute, ...options } as never)).toThrow(message);
});

test("an effect needs a valid name", () => {
  for (const name of ["", "n".repeat(201), 1, "a\0", "\ud800"]) {
    expect(() => defineEffect(name as never, { deduplication: "none", execute })).toThrow("name");
  }
});

test("options have defaults", () => {
  expect(defineEffect("e", { deduplication: "lookup", execute, lookup, close }).settings).toMatchObject({
    reopen: false,
    retry: { attempts: 3, backoffMs: 200, backoffMaxMs: 5_000 },
    limits: { timeoutMs: 10_000, concurrency: null, perSecond: null },
    delivery: {
      attemptsMax: 20,
      backoffMs: 1_000,
      backoffMaxMs: 300_000,
      ordered: false,
      keepMs: 24 * 60 * 60 * 1_000,
    },
    onDelivered: null,
  });
});

test("nothing of a delivered effect need be kept", () => {
  const { settings } = defineEffect("e", { deduplication: "none", execute, delivery: { keepMs: 0 } });
  expect(settings.delivery.keepMs).toBe(0);
});

test("a predicate that throws or returns a promise proves nothing", () => {
  const judged = (answer: () => unknown) => {
    const says = answer as () => boolean;
    const options = { deduplication: "none", execute, isNotExecuted: says, isRefused: says } as const;
    return judge(defineEffect("e", options), new Error("x")).kind;
  };
  expect(judged(() => Promise.resolve(true))).toBe("in_doubt");
  expect(
    judged(() => {
      throw new Error("y");
    }),
  ).toBe("in_doubt");
  expect(judge(defineEffect("e", { deduplication: "none", execute }), new NotExecuted()).kind).toBe(
    "not_executed",
  );
});
