/** The cases about a tenant's data can fail: each of them catches some of these mistakes. */
import { AssertionError } from "node:assert/strict";
import { describe, expect, test } from "vitest";
import { casesOf, failuresOf, type Mistake, type Parts } from "../../../test/support/broken-store.ts";
import type { EarlySettlement } from "../../latchkey/src/stores/early.ts";
import type { AuditFilter } from "../../latchkey/src/stores/settlement.ts";
import type { TenantData, TenantPage, TenantSweep } from "../../latchkey/src/stores/tenant-data.ts";

function data(make: (sound: TenantData, parts: Parts) => Partial<TenantData>): Mistake {
  return {
    store(parts) {
      const { tenantData: sound } = parts.inner;
      if (sound === undefined) throw new TypeError("the memory store knows what a tenant has");
      return { tenantData: { ...sound, ...make(sound, parts) } };
    },
  };
}

const sweeping = (change: (sweep: TenantSweep) => TenantSweep) =>
  data((sound) => ({ sweep: (sweep) => sound.sweep(change(sweep)) }));
const answering = (change: (page: TenantPage, sweep: TenantSweep) => TenantPage) =>
  data((sound) => ({ sweep: async (sweep) => change(await sound.sweep(sweep), sweep) }));

/** Removes records of this tenant in these states, whatever was requested. */
const taking = (...states: readonly string[]) =>
  data((sound, { rows }) => ({
    async sweep(sweep) {
      const gone = sweep.part === "records" && sweep.remove !== null;
      for (const { record } of gone ? rows.all() : []) {
        if (record.tenant === sweep.tenant && states.includes(record.state)) rows.remove(record);
      }
      return sound.sweep(sweep);
    },
  }));

const name = (text: string) => `tenant data: ${text}`;
const standing = name(
  "records are counted by their states, whatever the size of a page, and none is removed",
);
const effects = name("effects are counted by their states, and keep their record");
const over = name("only finished data is removed, unless undecided data is included");
const noted = name("undecided data leaves an audit row that names who decided, and its key starts again");
const lost = name("owners and workers of removed data are lost");
const running = name("a running attempt keeps its record, and ends normally");
const delivered = name("delivered effects are removed, dead ones if included, others never");
const messages = name("dead messages are removed if included, tallies always, and those of others stay");
const early = name("early settlements are removed with their record");
const audit = name("its audit rows are removed separately, except for those of its deletion");
const once = name("the deletion is recorded once, however often it is requested");
const log = "audit log: newest first, in pages without repetitions or gaps; for one tenant if asked";

type ListAudit = NonNullable<Parts["inner"]["listAudit"]>;

function auditLog(list: (sound: ListAudit, filter: AuditFilter) => ReturnType<ListAudit>): Mistake {
  return {
    store({ inner: { listAudit: sound } }) {
      if (sound === undefined) throw new TypeError("the memory store lists its audit rows");
      return { listAudit: (filter) => list(sound, filter) };
    },
  };
}
const age =
  "audit age: rows are removed when they are old enough, oldest first, at most `limit`, and others stay";

/** As if it were still stored. */
const settledOnce: EarlySettlement = {
  settlement: {
    event: "settle_call",
    call: "c",
    generation: 0,
    result: Uint8Array.of(1),
    resumeAfterMs: null,
  },
  note: { id: "x", actor: "webhook", proof: "webhook", reason: null },
  attempt: 1,
  call: { name: "c", generation: 0 },
};

const mistakes: Readonly<Record<string, readonly [caughtBy: string, mistake: Mistake]>> = {
  "only the first page is read": [standing, answering((page) => ({ ...page, next: null }))],
  "records of all tenants are counted": [
    standing,
    data((sound, { rows }) => ({
      async sweep(sweep) {
        const page = await sound.sweep(sweep);
        return sweep.part === "records" ? { ...page, over: rows.all().length } : page;
      },
    })),
  ],
  "an effect that is being sent counts as finished": [
    effects,
    answering((page) => ({ ...page, over: page.over + page.underWay, underWay: 0 })),
  ],
  "undecided data is removed": [
    over,
    sweeping((sweep) => ({ ...sweep, remove: sweep.remove && { ...sweep.remove, undecided: true } })),
  ],
  "undecided data leaves no audit row": [
    noted,
    data((sound, { audit: rows }) => ({
      async sweep(sweep) {
        const before = rows.length;
        const page = await sound.sweep(sweep);
        rows.splice(before);
        return page;
      },
    })),
  ],
  "data is counted as removed, and stays": [
    lost,
    data((sound) => ({
      async sweep(sweep) {
        const page = await sound.sweep({ ...sweep, remove: null });
        return { ...page, removed: page.over + page.undecided };
      },
    })),
  ],
  "running attempts are removed": [running, taking("in_progress", "pending")],
  "dead effects are removed without being included": [
    delivered,
    sweeping((sweep) => ({
      ...sweep,
      remove: sweep.remove && { ...sweep.remove, undecided: sweep.part === "effects" },
    })),
  ],
  "messages without a tenant are removed": [
    messages,
    data((sound, { kept }) => ({
      async sweep(sweep) {
        for (const { facts } of kept.all()) if (facts.tenant === null) kept.remove(facts.digest);
        return sound.sweep(sweep);
      },
    })),
  ],
  "early settlements outlive their record": [
    early,
    {
      store: ({ inner }) => ({
        ...(inner.early && { early: { ...inner.early, of: async () => [settledOnce] } }),
      }),
    },
  ],
  "the deletion's own audit row is removed": [
    audit,
    data((sound, { audit: rows }) => ({
      async sweep(sweep) {
        const page = await sound.sweep(sweep);
        if (sweep.part === "audit" && sweep.remove !== null) rows.splice(0);
        return page;
      },
    })),
  ],
  "the deletion is recorded each time": [
    once,
    data((sound) => ({
      note: (tenant, note) => sound.note(tenant, { ...note, id: crypto.randomUUID() }),
    })),
  ],
  "the youngest audit rows are removed first": [
    age,
    {
      store: ({ audit: rows }) => ({
        cleanAudit: async (_, limit) => rows.splice(-limit, limit).length,
      }),
    },
  ],
  "an audit log with the oldest first": [
    log,
    auditLog(async (list, filter) =>
      (await list({ ...filter, limit: 1_000 })).toReversed().slice(0, filter.limit),
    ),
  ],
  "an audit log of every tenant": [log, auditLog((list, filter) => list({ ...filter, tenant: null }))],
  "an audit log whose pages continue by time only": [
    log,
    auditLog((list, { before, ...filter }) => list({ ...filter, before: before && { ...before, id: "" } })),
  ],
  "an audit log that repeats its first page": [
    log,
    auditLog(async (list, filter) => {
      const page = await list({ ...filter, before: null });
      return filter.before === null || page.length < filter.limit ? page : page.slice(0, -1);
    }),
  ],
  "an audit log with one row too few on each page": [
    log,
    auditLog(async (list, filter) => {
      const page = await list({ ...filter, limit: filter.limit + 1 });
      return page.length > filter.limit ? page.slice(1) : page;
    }),
  ],
};

const tenantCases = (mistake: Mistake) =>
  casesOf(mistake).filter(([one]) => one.startsWith("tenant data:") || /^audit (age|log):/u.test(one));

test.each(Object.entries(mistakes))("the suite catches: %s", async (_, [caughtBy, mistake]) => {
  const failures = await failuresOf(tenantCases(mistake));
  expect([...failures.keys()]).toContain(caughtBy);
  expect(failures.get(caughtBy)).toBeInstanceOf(AssertionError);
});

describe("every case", () => {
  test("passes on the sound store, and catches some of the mistakes", async () => {
    expect([...(await failuresOf(tenantCases({}))).keys()]).toEqual([]);
    const caught = new Set(Object.values(mistakes).map(([caughtBy]) => caughtBy));
    expect(
      tenantCases({})
        .map(([one]) => one)
        .filter((one) => !caught.has(one)),
    ).toEqual([]);
  });
});
