/** The optional parts of a store. Those that `inner` lacks, the faulty store lacks. */
import type { Archival } from "../../stores/archival.ts";
import type { EarlySettlements } from "../../stores/early.ts";
import type { Store } from "../../stores/store.ts";
import type { TenantData } from "../../stores/tenant-data.ts";
import type { EveryMember } from "../../stores/wrapped.ts";
import type { FaultyProcess } from "./process.ts";

type Optional = {
  readonly [Name in keyof Store<unknown> as undefined extends Store<unknown>[Name]
    ? Name
    : never]: Store<unknown>[Name];
};

export function faultyOptional(inner: Optional, process: FaultyProcess): EveryMember<Optional> {
  const { early, summaries, facts, archival, tenantData } = inner;
  const { overview, countActiveKeys, examine, cleanAudit, listAudit } = inner;
  return {
    leasesRefused: inner.leasesRefused,
    ownCircuits: inner.ownCircuits,
    keepsTraces: inner.keepsTraces,
    early: early && faultyEarly(early, process),
    summaries: summaries && {
      of: (key, id) => process.call("readSummary", key, () => summaries.of(key, id)),
    },
    facts: facts && {
      keep: (groups) => process.call("keepFacts", null, () => facts.keep(groups)),
      of: (key, id) => process.call("readFacts", key, () => facts.of(key, id)),
    },
    archival: archival && faultyArchival(archival, process),
    tenantData: tenantData && faultyTenantData(tenantData, process),
    // A copy that is not at hand at once counts as none, so it needs no faults of its own.
    finished: inner.finished,
    close: inner.close?.bind(inner),
    overview:
      overview && ((countMax) => process.call("overview", null, () => overview.call(inner, countMax))),
    countActiveKeys:
      countActiveKeys &&
      ((tenants, countMax) =>
        process.call("countActiveKeys", null, () => countActiveKeys.call(inner, tenants, countMax))),
    examine: examine && ((request) => process.call("examine", null, () => examine.call(inner, request))),
    cleanAudit:
      cleanAudit &&
      ((keepMs, limit) => process.call("cleanAudit", null, () => cleanAudit.call(inner, keepMs, limit))),
    listAudit:
      listAudit && ((filter) => process.call("listAudit", null, () => listAudit.call(inner, filter))),
  };
}

function faultyEarly(inner: EarlySettlements, process: FaultyProcess): EarlySettlements {
  return {
    keep: (key, guard, early) => process.call("keepEarly", key, () => inner.keep(key, guard, early)),
    of: (key, recordId) => process.call("readEarly", key, () => inner.of(key, recordId)),
    due: (limit) => process.call("dueEarly", null, () => inner.due(limit)),
  };
}

function faultyArchival(inner: Archival, process: FaultyProcess): Archival {
  return {
    clean: (limit) => process.call("cleanForArchive", null, () => inner.clean(limit)),
    due: (limit) => process.call("dueForArchive", null, () => inner.due(limit)),
    forget: (records) => process.call("forgetArchived", null, () => inner.forget(records)),
  };
}

function faultyTenantData(inner: TenantData, process: FaultyProcess): TenantData {
  return {
    sweep: (sweep) => process.call("sweepTenant", null, () => inner.sweep(sweep)),
    note: (tenant, note) => process.call("noteTenant", null, () => inner.note(tenant, note)),
  };
}
