/** How people name a dead effect or message: its id, and for an effect which of its deaths is meant. */
import { isRecordId } from "../execution/find-record.ts";
import type { OutboxEffect, OutboxSupport } from "../stores/outbox.ts";

export interface DeadName {
  readonly id: string;
  /** Null where it is not said. */
  readonly attempt: number | null;
}

export function deathName({ id, fence }: Pick<OutboxEffect, "id" | "fence">): string {
  return `${id}@${fence.attempt}`;
}

/** Null: it is no such name. */
export function parseDeadName(text: string): DeadName | null {
  const [, id = "", attempt] = /^([^@]*)(?:@([1-9]\d{0,8}))?$/u.exec(text) ?? [];
  return isRecordId(id) ? { id, attempt: attempt === undefined ? null : Number(attempt) } : null;
}

const pageSize = 100;
const firstId = "00000000-0000-0000-0000-000000000000";
/** By which the clocks of a store and its clients differ at most, mostly. */
const skewMs = 60 * 60 * 1_000;

/** The name of the death in which the effect is now; null: it is not dead, or not to be found where it belongs by its time. */
export async function laterDeath(outbox: OutboxSupport | null, { id }: DeadName): Promise<string | null> {
  const found = await findDead(outbox, id);
  return found === null ? null : deathName(found);
}

/** The dead effect of this id; null: it is not dead, or not to be found where it belongs by its time. */
export async function findDead(outbox: OutboxSupport | null, id: string): Promise<OutboxEffect | null> {
  const made = Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
  const filter = { state: "dead", effect: null, tenant: null, limit: pageSize } as const;
  for (let after = { createdAt: Math.max(0, made - skewMs), id: firstId }; ; ) {
    const page = (await outbox?.list({ ...filter, after })) ?? [];
    const found = page.find((effect) => effect.id === id);
    if (found !== undefined) return found;
    const last = page.at(-1);
    if (last === undefined || page.length < pageSize || last.createdAt > made + skewMs) return null;
    after = { createdAt: last.createdAt, id: last.id };
  }
}
