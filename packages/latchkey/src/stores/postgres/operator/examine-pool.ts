/** Checks a pool for dangerous options, and finds out which kind of pooler is between it and the server. */
import type { Connection, Connections } from "../../../sql/pg/connections.ts";
import { type ExamineRequest, type Finding, failed, notChecked, ok, warning } from "../../examination.ts";
import { numberOf, onlyRow } from "../statements/rows.ts";
import { why } from "./examine.ts";

export interface PoolUse {
  readonly notify: boolean;
}

export async function examinePool(
  connections: Connections,
  use: PoolUse,
  { isOfService }: ExamineRequest,
  isReachable: boolean,
): Promise<readonly Finding[]> {
  const pool = isOfService
    ? poolFindings(connections, use)
    : [notChecked("pool", "The options of the service's pool are known only with --config.")];
  return isReachable ? [...pool, await pooler(connections, use, isOfService)] : pool;
}

/** One for heartbeats, one for notifications, one for a transaction, and one for statements outside it. */
const workerPoolMin = 4;

function poolFindings(connections: Connections, { notify }: PoolUse): readonly Finding[] {
  const options = connections.poolOptions;
  if (options === undefined) return [notChecked("pool", "The pool does not expose its options.")];
  const findings: Finding[] = [];
  if (!options.connectionTimeoutMillis) {
    const message =
      "The pool has no connectionTimeoutMillis: each connection attempt that hangs occupies the pool for ever, until every request gets 503.";
    findings.push(failed("pool", message, "Set connectionTimeoutMillis, for example to 3000."));
  }
  const { max } = options;
  if (max === 1) {
    const message = "The pool has one connection: no operation can run under a lease.";
    findings.push(warning("pool", message, "Set `max` of the pool to at least 2."));
  } else if (max !== undefined && max < workerPoolMin && notify) {
    const message = `The pool has ${max} connections: a worker with \`notify\` needs at least ${workerPoolMin}.`;
    findings.push(
      warning("pool", message, `Set \`max\` of the pool to ${workerPoolMin}, or \`notify: false\`.`),
    );
  }
  if (findings.length > 0) return findings;
  return [
    ok(
      "pool",
      `At most ${max ?? "?"} connections, each opened within ${options.connectionTimeoutMillis} ms.`,
    ),
  ];
}

async function pooler(connections: Connections, use: PoolUse, isOfService: boolean): Promise<Finding> {
  if (connections.max === 1) {
    return notChecked("pooler", "This check needs two connections, and the pool has one.");
  }
  try {
    return poolerFinding(
      await lookThrough(connections),
      use,
      connections.options.namedStatements,
      isOfService,
    );
  } catch (error) {
    return notChecked("pooler", `Two connections could not be opened and queried: ${why(error)}.`);
  }
}

type Between =
  /** Two connections share a session of the server: after each transaction it may serve the other one. */
  | "transaction"
  /** A pooler answers, not the server itself, but no session was shared. */
  | "session"
  | "nothing";

const looks = 3;

async function lookThrough(connections: Connections): Promise<Between> {
  const one = await connections.take();
  try {
    const other = await connections.take();
    try {
      const seen: [Set<number>, Set<number>] = [new Set(), new Set()];
      for (let look = 0; look < looks; look++) {
        seen[0].add(await backendOf(one));
        seen[1].add(await backendOf(other));
      }
      if ([...seen[0]].some((pid) => seen[1].has(pid))) return "transaction";
      const { processID } = one.client;
      return processID == null || seen[0].has(processID) ? "nothing" : "session";
    } finally {
      other.giveBack();
    }
  } finally {
    one.giveBack();
  }
}

const backend = { name: "lk_backend", text: "select pg_catalog.pg_backend_pid() as pid", values: [] };

async function backendOf(connection: Connection): Promise<number> {
  const reply = await connection.sendPipeline([backend], { named: false });
  if (reply.error !== null || reply.status !== "I") {
    connection.destroy();
    throw reply.error ?? new Error("the connection was left inside a transaction");
  }
  return numberOf(onlyRow(reply.replies[0]?.rows), "pid");
}

function poolerFinding(
  between: Between,
  { notify }: PoolUse,
  namedStatements: boolean,
  isOfService: boolean,
): Finding {
  if (between === "nothing") return ok("pooler", "Connections go to the server itself.");
  if (between === "session") {
    return ok("pooler", "A pooler is in front of the server, and each connection has its own session.");
  }
  const found = "A pooler in transaction mode is in front of the server";
  if (!isOfService) {
    const remedy = "Create the store with `namedStatements: false` and `notify: false`.";
    return warning(
      "pooler",
      `${found}: after each transaction, a session may serve another connection.`,
      remedy,
    );
  }
  if (notify) {
    const message = `${found}, and the store listens for notifications, which do not arrive through it.`;
    return failed("pooler", message, "Give the store `notify: false`, and `namedStatements: false`.");
  }
  if (namedStatements) {
    const message = `${found}, and the store prepares statements by name, which fail unless the pooler supports prepared statements.`;
    const remedy =
      "Give the store `namedStatements: false`, unless it is pgbouncer 1.21 or newer with max_prepared_statements above 0.";
    return warning("pooler", message, remedy);
  }
  return ok(
    "pooler",
    `${found}; the store has \`notify: false\` and \`namedStatements: false\`, as that requires.`,
  );
}
