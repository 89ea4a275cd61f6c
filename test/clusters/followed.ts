/** pgbouncer before Patroni's present leader: each node that becomes the leader writes itself down and has pgbouncer read that. */
import { chmodSync, chownSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type PatroniCluster, startPatroni } from "../support/patroni.ts";
import { Pooler } from "../support/pooler.ts";
import { onRelease } from "../support/resources.ts";
import { scratchDirectory, serverUser } from "../support/scratch.ts";
import { watchDirectory } from "../support/watchdog.ts";

export interface Followed {
  readonly cluster: PatroniCluster;
  readonly pooler: Pooler;
}

/** Undefined after a "not run" report; null: there is no pgbouncer. */
export async function startFollowed(): Promise<Followed | null | undefined> {
  const folder = scratchDirectory();
  const forget = watchDirectory(folder);
  onRelease(() => {
    rmSync(folder, { recursive: true, force: true });
    forget();
  });
  const file = (name: string) => join(folder, name);
  const [script, databases, pidFile] = [file("follow"), file("databases.ini"), file("pid")];
  // Patroni 3 calls the leader's role `master`.
  const lines = [
    "#!/bin/sh",
    'case "$3" in master|primary) ;; *) exit 0 ;; esac',
    `printf 'postgres = host=127.0.0.1 port=%s\\n' "$1" > ${databases}.new && mv ${databases}.new ${databases}`,
    `test -f ${pidFile} && kill -HUP "$(cat ${pidFile})"`,
  ];
  writeFileSync(script, `${lines.join("\n")}\n`);
  chmodSync(script, 0o755);
  const user = serverUser();
  if (user) chownSync(script, user.uid, user.gid);
  const cluster = await startPatroni({ onRoleChange: script });
  if (cluster === undefined) return undefined;
  const pooler = await Pooler.open("pgbouncer", {
    to: (await cluster.leader()).url,
    databasesFile: databases,
    settings: { pidfile: pidFile, server_connect_timeout: 2 },
  });
  return pooler && { cluster, pooler };
}
