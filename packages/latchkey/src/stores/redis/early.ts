/** Early settlements in Redis: stored beside the steps of their life, and removed with them. */
import type { UnknownRecord } from "../../engine/record.ts";
import { decodeEarly, type EarlySettlements, encodeEarly } from "../early.ts";
import { guardArguments } from "./arguments.ts";
import { collect, prefixes, timeLength } from "./index-ranges.ts";
import { readingOf } from "./records.ts";
import { listOf, textOf } from "./replies.ts";
import type { Runner } from "./runner.ts";
import { recordScripts } from "./scripts/records.ts";
import { settlementScripts } from "./scripts/settlement.ts";

export function redisEarly(runner: Runner): EarlySettlements {
  const { layout } = runner;
  return {
    async keep(key, guard, early) {
      const args = [...guardArguments(guard), early.note.id, encodeEarly(early)];
      return (await runner.on(layout.locationOf(key), settlementScripts.keepEarly, args)) !== null;
    },
    async of(key, recordId) {
      const found = listOf(await runner.on(layout.locationOf(key), settlementScripts.early, [recordId]));
      return found
        .map(textOf)
        .sort()
        .map((text) => decodeEarly(text.slice(timeLength)));
    },
    due: (limit) =>
      collect(runner, { prefixes: [prefixes.early], due: false, limit }, async ({ location }) => {
        const record = readingOf(await runner.on(location, recordScripts.read)).stored?.record;
        return record?.state === "unknown" ? (record satisfies UnknownRecord) : null;
      }),
  };
}
