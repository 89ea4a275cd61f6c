/** Where each planted mistake shows. */
import { type Death, deathNamed } from "./deaths.ts";
import type { Plant } from "./plants.ts";

const targets: Readonly<Record<Plant, string>> = {
  "answers before its COMMIT": "transaction: 3 commit before",
  "accepts before it is kept": "deferred, its API, by services: 3 accept before",
  "outbox row in a transaction of its own": "transaction that enqueues: 4 open before",
  "start written after the send": "steps, none, finish, resume, by services: 6 send flight",
  "key of a call changes with the attempt": "steps, provider, finish, resume, by services: 7 send flight",
  "finished steps are forgotten": "steps, provider, finish, resume, by services: 7 send before",
  "releases what is unknown": "lease, reconcile, by services: 3 send flight",
  "forgets that a dead claim had sent": "delivery, none, notice: 4 send flight",
  "closes alone": "steps, reopen, finish, resume, by services: 7 send late",
};

/** A death at which it must be found. */
export function targetOf(plant: Plant): Death {
  return deathNamed(targets[plant]);
}
