/** Messages on Postgres. */
import type { SqlRow } from "../../transactions/transaction.ts";
import type { DeadMessage, MessageFacts, MessageSupport, MessageTally } from "../messages.ts";
import type { PostgresExecutor } from "./executor.ts";
import type { messageStatements } from "./message-statements.ts";
import { booleanOf, bytesOf, foundRows, momentOf, nullableText, numberOf, onlyRow, textOf } from "./rows.ts";
import { checkStorable } from "./values.ts";

export function postgresMessages(
  executor: PostgresExecutor,
  statements: ReturnType<typeof messageStatements>,
): MessageSupport {
  return {
    async find(digest) {
      const [row] = foundRows(await executor.read(statements.findMessage.bind({ digest })), "state");
      return row === undefined ? null : tallyOf(row);
    },

    async count(facts, { starts, returns, failures, errorCode, keepMs }, id) {
      if (errorCode !== null) checkStorable("errorCode", errorCode);
      const counts = { starts, returns, failures, error_code: errorCode, keep_ms: keepMs };
      const values = { ...factValues(facts), ...counts, id };
      return tallyOf(onlyRow(await executor.write(statements.countMessage.bind(values))));
    },

    async forget(digest) {
      await executor.write(statements.forgetMessage.bind({ digest }));
    },

    async bury(facts, { id, reason, contentType, payload }) {
      for (const [what, text] of Object.entries({ reason, contentType: contentType ?? "" })) {
        checkStorable(what, text);
      }
      const letter = { id, reason, content_type: contentType, payload };
      await executor.write(statements.buryMessage.bind({ ...factValues(facts), ...letter }));
    },

    async list({ operation, tenant, limit, after }) {
      const page = { limit, after_ms: after?.diedAt ?? null, after_id: after?.id ?? null };
      const values = { only_operation: operation, only_tenant: tenant, ...page };
      return foundRows(await executor.read(statements.listMessages.bind(values)), "id").map(deadOf);
    },

    async remove(id, event, note) {
      for (const [what, text] of Object.entries({ actor: note.actor, reason: note.reason ?? "" })) {
        checkStorable(what, text);
      }
      const values = { id, event, audit_id: note.id, actor: note.actor, reason: note.reason };
      const [row] = await executor.write(statements.removeMessage.bind(values));
      if (row !== undefined) return true;
      return booleanOf(onlyRow(await executor.read(statements.messageRemoved.bind(values))), "removed");
    },
  };
}

function factValues({ digest, source, operation, tenant, key }: MessageFacts) {
  for (const [what, text] of Object.entries({ source, operation, tenant: tenant ?? "", key: key ?? "" })) {
    checkStorable(what, text);
  }
  return { digest, source, operation, tenant, key };
}

function tallyOf(row: SqlRow): MessageTally {
  return {
    state: textOf(row, "state") as MessageTally["state"],
    starts: numberOf(row, "starts"),
    returns: numberOf(row, "returns"),
    failures: numberOf(row, "failures"),
    lastErrorCode: nullableText(row, "last_error_code"),
  };
}

function deadOf(row: SqlRow): DeadMessage {
  return {
    ...tallyOf(row),
    digest: textOf(row, "digest"),
    id: textOf(row, "id"),
    source: textOf(row, "source"),
    operation: textOf(row, "operation"),
    tenant: nullableText(row, "tenant"),
    key: nullableText(row, "key"),
    reason: textOf(row, "reason"),
    contentType: nullableText(row, "content_type"),
    payload: bytesOf(textOf(row, "payload")),
    diedAt: momentOf(row, "died_at"),
  };
}
