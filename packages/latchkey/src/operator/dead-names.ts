/** How operators name a dead effect or message: by its id, and for an effect also by which of its deaths is meant. */
import { isRecordId } from "../execution/find-record.ts";
import type { OutboxEffect, OutboxSupport } from "../stores/outbox.ts";

export interface DeadName {
  readonly id: string;
  /** Null if the name does not contain it. */
  readonly attempt: number | null;
}

export function deathName({ id, fence }: Pick<OutboxEffect, "id" | "fence">): string {
  return `${id}@${fence.attempt}`;
}

/** Null if the text is not such a name. */
export function parseDeadName(text: string): DeadName | null {
  const [, id = "", attempt] = /^([^@]*)(?:@([1-9]\d{0,8}))?$/u.exec(text) ?? [];
  return isRecordId(id) ? { id, attempt: attempt === undefined ? null : Number(attempt) } : null;
}

const pageSize = 100;
const firstId = "00000000-0000-0000-0000-000000000000";
/** The usual largest difference between the clocks of a store and its clients. */
const skewMs = 60 * 60 * 1_000;

/** The name of the effect's current death; null if it is not dead, or not found around the time in its id. */
export async function laterDeath(outbox: OutboxSupport | null, { id }: DeadName): Promise<string | null> {
  const found = await findDead(outbox, id);
  return found === null ? null : deathName(found);
}

/** The dead effect with this id; null if it is not dead, or not found around the time in its id. */
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
