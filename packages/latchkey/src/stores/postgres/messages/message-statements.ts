/** Statements about messages. None of them runs inside a business transaction. */
import { sql } from "../sql/texts.ts";
import type { SqlNames } from "../statements/sql-parts.ts";
import { statement } from "../statements/statement.ts";

export function messageStatements(names: SqlNames) {
  return {
    findMessage: statement("find_message", sql.findMessage, names),
    countMessage: statement("count_message", sql.countMessage, names),
    forgetMessage: statement("forget_message", sql.forgetMessage, names),
    buryMessage: statement("bury_message", sql.buryMessage, names),
    condemnMessage: statement("condemn_message", sql.condemnMessage, names),
    messageIsDead: statement("message_is_dead", sql.messageIsDead, names),
    listMessages: statement("list_messages", sql.listMessages, names),
    removeMessage: statement("remove_message", sql.removeMessage, names),
    messageRemoved: statement("message_removed", sql.messageRemoved, names),
    cleanMessages: statement("clean_messages", sql.cleanMessages, names),
  };
}
