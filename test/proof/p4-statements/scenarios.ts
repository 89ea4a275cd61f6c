/** All scenarios. */
import type { Scenario } from "./scenario.ts";
import * as attempts from "./scenarios/attempts.ts";
import * as batches from "./scenarios/batches.ts";
import * as deferred from "./scenarios/deferred.ts";
import * as gatheredLeases from "./scenarios/gathered-leases.ts";
import * as leases from "./scenarios/leases.ts";
import * as lookUps from "./scenarios/look-ups.ts";
import * as outbox from "./scenarios/outbox.ts";
import * as phases from "./scenarios/phases.ts";
import * as requests from "./scenarios/requests.ts";
import * as settlements from "./scenarios/settlements.ts";
import * as strangers from "./scenarios/strangers.ts";
import * as transactions from "./scenarios/transactions.ts";

export const scenarios: readonly Scenario[] = [
  requests,
  transactions,
  leases,
  phases,
  settlements,
  outbox,
  deferred,
  attempts,
  batches,
  strangers,
  lookUps,
  gatheredLeases,
].flatMap((module): readonly Scenario[] => Object.values(module));

export function scenarioNamed(name: string): Scenario {
  const found = scenarios.find((scenario) => scenario.name === name);
  if (found === undefined) throw new TypeError(`There is no scenario ${name}`);
  return found;
}
