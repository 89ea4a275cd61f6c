/** Statements of attempts under a lease: beginning, taking over, renewing, ending. Each is one atomic step. */
import { sql } from "../sql/texts.ts";
import type { SqlNames } from "../statements/sql-parts.ts";
import { statement } from "../statements/statement.ts";

export function leaseStatements(names: SqlNames) {
  const traced = { ...names, traced: true };
  return {
    create: statement("create", sql.create, names),
    createMany: statement("create_many", sql.createMany, names),
    createOver: statement("create_over", sql.createOver, names),
    accept: statement("accept", sql.accept, names),
    acceptOver: statement("accept_over", sql.acceptOver, names),
    createTraced: statement("create_traced", sql.create, traced),
    createOverTraced: statement("create_over_traced", sql.createOver, traced),
    acceptTraced: statement("accept_traced", sql.accept, traced),
    acceptOverTraced: statement("accept_over_traced", sql.acceptOver, traced),
    takeOverRetryable: statement("take_over_retryable", sql.takeOverRetryable, names),
    takeOverEnded: statement("take_over_ended", sql.takeOverEnded, names),
    renew: statement("renew", sql.renew, names),
    renewMany: statement("renew_many", sql.renewMany, names),
    finish: statement("finish", sql.finish, names),
    finishMany: statement("finish_many", sql.finishMany, names),
    park: statement("park", sql.park, names),
    release: statement("release", sql.release, names),
    giveUp: statement("give_up", sql.giveUp, names),
  };
}
