/** The outboxes of several stores as one. A claim names no tenant, so the store of each claimed effect is remembered. */
import { StoreError } from "../errors.ts";
import type { EffectClaim, EffectKey, OutboxEffect, OutboxSupport } from "../stores/outbox.ts";
import type { Store } from "../stores/store.ts";
import type { Member, Members } from "./members.ts";
import { mergePages, shareOut } from "./shares.ts";

/** Bounds the memory for claims that are never ended. For a forgotten claim all stores are called. */
const claimsMax = 100_000;

/** The store of each effect that this process claimed. */
export class ClaimedFrom<Tx> {
  readonly #members = new Map<string, Member<Tx>>();

  note(id: string, member: Member<Tx>): void {
    this.#members.delete(id);
    this.#members.set(id, member);
    if (this.#members.size <= claimsMax) return;
    const [oldest] = this.#members.keys();
    if (oldest !== undefined) this.#members.delete(oldest);
  }

  of(id: string): Member<Tx> | null {
    return this.#members.get(id) ?? null;
  }
}

function outboxOf<Tx>({ outbox, name }: Store<Tx>): OutboxSupport {
  if (outbox !== null) return outbox;
  throw new StoreError("not_sent", { message: `Store ${name} has no outbox` });
}

export function routedOutbox<Tx>(members: Members<Tx>, claimedFrom: ClaimedFrom<Tx>): OutboxSupport {
  /** One call for each store. Claims of other processes go to all stores: only the right one writes. */
  const byStore = async <Item extends EffectClaim>(
    items: readonly Item[],
    write: (outbox: OutboxSupport, items: readonly Item[]) => Promise<readonly string[]>,
  ): Promise<readonly string[]> => {
    const groups = [...Map.groupBy(items, ({ id }) => claimedFrom.of(id))];
    const written = await Promise.all(
      groups.map(async ([member, those]) =>
        member === null
          ? (await members.every((store) => write(outboxOf(store), those))).flat()
          : write(outboxOf(member.store), those),
      ),
    );
    return written.flat();
  };
  const every = async <T>(ask: (outbox: OutboxSupport) => Promise<readonly T[]>): Promise<readonly T[][]> =>
    (await members.every((store) => ask(outboxOf(store)))).map((rows) => [...rows]);
  const anyTrue = (ask: (outbox: OutboxSupport) => Promise<boolean>) =>
    members.find(
      (store) => ask(outboxOf(store)),
      (done) => done,
    );
  return {
    partOf: (id) => claimedFrom.of(id),
    claim: claiming(members, claimedFrom),
    start: (claims, leaseMs) => byStore(claims, (outbox, those) => outbox.start(those, leaseMs)),
    end: (ends) => byStore(ends, (outbox, those) => outbox.end(those)),
    async rescue(limit) {
      const rescues = await shareOut(members, [limit], async ({ store }, [share = 0]) => {
        const value = await outboxOf(store).rescue(share);
        return { value, used: [value.unstarted + value.started] };
      });
      const sum = (of: "unstarted" | "started") => rescues.reduce((all, one) => all + one[of], 0);
      return { unstarted: sum("unstarted"), started: sum("started") };
    },
    async list(filter) {
      if (filter.tenant !== null) return outboxOf(members.of(filter.tenant).store).list(filter);
      const pages = await every((outbox) => outbox.list(filter));
      return mergePages(pages, filter.limit, ({ createdAt, id }) => [createdAt, id]);
    },
    ofRecord: (recordId) =>
      members.find(
        (store) => outboxOf(store).ofRecord(recordId),
        (effects) => effects.length > 0,
      ),
    async byDownstreamKey(keys) {
      return (await every((outbox) => withDownstreamKey(outbox, keys))).flat();
    },
    async finished(query) {
      const pages = await every(async (outbox) => (await outbox.finished?.(query)) ?? []);
      return mergePages(pages, query.limit, ({ finishedAt, downstreamKey }) => [
        finishedAt ?? 0,
        downstreamKey,
      ]);
    },
    confirm: (confirmation, note) => anyTrue((outbox) => outbox.confirm(confirmation, note)),
    decide: (id, decision, note) => anyTrue((outbox) => outbox.decide(id, decision, note)),
  };
}

/** Each store gets a share of the wanted number. */
function claiming<Tx>(members: Members<Tx>, claimedFrom: ClaimedFrom<Tx>): OutboxSupport["claim"] {
  return async (wants, token, leaseMs) => {
    const limits = wants.map(({ limit }) => limit);
    const pages = await shareOut(members, limits, async (member, shares) => {
      const own = wants.flatMap((want, at) => {
        const limit = shares[at] ?? 0;
        return limit === 0 ? [] : [{ ...want, limit }];
      });
      const rows = await outboxOf(member.store).claim(own, token, leaseMs);
      for (const { id } of rows) claimedFrom.note(id, member);
      const used = wants.map(({ effect }) => rows.filter((row) => row.effect === effect).length);
      return { value: rows, used };
    });
    return pages.flat();
  };
}

async function withDownstreamKey(
  outbox: OutboxSupport,
  keys: readonly EffectKey[],
): Promise<readonly OutboxEffect[]> {
  if (outbox.byDownstreamKey !== undefined) return outbox.byDownstreamKey(keys);
  const effects = await Promise.all(keys.map(({ recordId }) => outbox.ofRecord(recordId)));
  const wanted = new Set(keys.map(({ downstreamKey }) => downstreamKey));
  return effects.flat().filter(({ downstreamKey }) => wanted.has(downstreamKey));
}
