/** Statements of attempts under a lease: beginning, taking over, renewing, ending. Each is one atomic step. */
import { sql } from "./sql/texts.ts";
import type { SqlNames } from "./sql-parts.ts";
import { statement } from "./statement.ts";

export function leaseStatements(names: SqlNames) {
  return {
    create: statement("create", sql.create, names),
    createMany: statement("create_many", sql.createMany, names),
    createOver: statement("create_over", sql.createOver, names),
    accept: statement("accept", sql.accept, names),
    acceptOver: statement("accept_over", sql.acceptOver, names),
    // A service without tracing sends no parameter for it.
    createTraced: statement("create_traced", sql.createTraced, names),
    createOverTraced: statement("create_over_traced", sql.createOverTraced, names),
    acceptTraced: statement("accept_traced", sql.acceptTraced, names),
    acceptOverTraced: statement("accept_over_traced", sql.acceptOverTraced, names),
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
