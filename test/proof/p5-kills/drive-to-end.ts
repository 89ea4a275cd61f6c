/** What happens after a death: clients come again, services work, and the store's clock moves on, until all is at rest. */

import { type ServiceName, serviceNames } from "./assemble.ts";
import type { Lane } from "./lane.ts";
import type { Mode } from "./modes.ts";
import type { Reply } from "./reply.ts";
import { Violation } from "./violation.ts";
import type { Order } from "./work.ts";

/** Where a client comes again and goes on, the rescuer is no part: the next request itself takes over, or gives up. */
const besideClient = serviceNames.filter((service) => service !== "rescuer");

/** Where nobody comes again, what is left may need every one of them. */
function servicesOf({ continuedBy }: Mode, client: boolean): readonly ServiceName[] {
  return client && continuedBy === "client" ? besideClient : serviceNames;
}

/** Each of them waits for every lease and pause: a few are enough for the longest way to a person. */
const roundsMax = 20;
/** Something may move in each round that waits for a lease all the same. */
const leapsEvery = 3;

/** One order, and all replies to its clients. */
export interface Course {
  readonly lane: Lane;
  readonly mode: Mode;
  readonly order: Order;
  /** Who has died. */
  readonly dead: string;
  readonly replies: Reply[];
}

export async function retry({ lane, mode, order, replies }: Course): Promise<Reply> {
  const now = await lane.submit(mode.operation, order);
  replies.push(now);
  return now;
}

/** Nothing is to be waited for any more. */
export function isSatisfied(replies: Reply): boolean {
  return replies.kind === "answer" || (replies.kind === "unknown" && replies.waitsForPerson);
}

/**
 * @param client whether it comes again each time
 * @throws {Violation} L1
 */
export async function driveToEnd(course: Course, client: boolean): Promise<void> {
  const { lane, mode, dead } = course;
  let satisfied = !client;
  for (let round = 1; round <= roundsMax; round++) {
    const before = await lane.unfinished();
    for (const service of servicesOf(mode, client)) await lane.work(service);
    if (!satisfied) satisfied = isSatisfied(await retry(course));
    const after = await lane.unfinished();
    if (satisfied && after.isQuiet) return;
    if (after.text !== before.text && round % leapsEvery !== 0) continue;
    // A transaction that nobody goes on with is ended by the server, in real time.
    if (await lane.hasOpenTransaction(dead)) await lane.transactionsEnd(dead);
    else await lane.advance();
  }
  const { text } = await lane.unfinished();
  throw new Violation("L1", `not at rest after ${roundsMax} rounds: ${text}`);
}
