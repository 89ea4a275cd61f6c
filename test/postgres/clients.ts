/** Every way to use a database client that has a bridge, as tests over all of them need it. */
import type { OpenWay, Way } from "../registry/client.ts";
import { clients as registered } from "../registry/clients.ts";

export type { OpenClient, Say } from "../registry/client.ts";

export interface DatabaseClient extends Way {
  /** Of `latchkey/<module>`. */
  readonly module: string;
  readonly open: OpenWay;
}

const entries = registered.map(async ({ name, ways, open }) => {
  const opened = (await open()).ways;
  return Object.entries(ways).map(([way, facts]): [string, DatabaseClient] => {
    const { [way]: openWay } = opened;
    if (openWay === undefined) throw new TypeError(`Nothing opens ${way}`);
    return [way, { ...facts, module: name, open: openWay }];
  });
});

export const clients: Readonly<Record<string, DatabaseClient>> = Object.fromEntries(
  (await Promise.all(entries)).flat(),
);
