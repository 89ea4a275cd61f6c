/** Messages on Postgres. */
import { StoreError } from "../../../errors.ts";
import type { SqlRow, SqlStatement } from "../../../sql/transaction.ts";
import type { DeadMessage, MessageFacts, MessageSupport, MessageTally } from "../../messages.ts";
import { checkStorable } from "../../storable.ts";
import type { PostgresExecutor } from "../executor.ts";
import { bytesOf, foundRows, momentOf, nullableText, numberOf, onlyRow, textOf } from "../statements/rows.ts";
import type { Confirmation } from "../transactions/confirm.ts";
import type { messageStatements } from "./message-statements.ts";

export function postgresMessages(
  executor: PostgresExecutor,
  statements: ReturnType<typeof messageStatements>,
  confirmation: Confirmation,
): MessageSupport {
  /** Confirmed by a standby, because the consumer then acknowledges the message. */
  const isDead = (digest: string) => confirmation.isDone(statements.messageIsDead.bind({ digest }));

  /** If the write finds the message dead, and the confirmation does not, the letter was lost with a former primary. */
  const buried = async (digest: string, write: SqlStatement, tries: number): Promise<boolean> => {
    for (let left = tries; left > 0; left--) {
      const { buried } = onlyRow(await executor.write(write));
      if (buried === 1 || (await isDead(digest))) return true;
    }
    return false;
  };

  return {
    async find(digest) {
      const [row] = foundRows(await executor.read(statements.findMessage.bind({ digest })), "state");
      if (row === undefined) return null;
      const tally = tallyOf(row);
      if (tally.state !== "dead") return tally;
      const dead = await confirmation.rowsOf(statements.messageIsDead.bind({ digest }));
      return dead.length > 0 ? tally : null;
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

    async bury(facts, { id, reason, contentType, payload }, judged) {
      for (const [what, text] of Object.entries({ reason, contentType: contentType ?? "" })) {
        checkStorable(what, text);
      }
      const letter = { id, reason, content_type: contentType, payload };
      const values = { ...factValues(facts), ...letter };
      if (judged !== null) {
        const { starts, returns } = judged;
        return buried(facts.digest, statements.condemnMessage.bind({ ...values, starts, returns }), 1);
      }
      if (await buried(facts.digest, statements.buryMessage.bind(values), 2)) return true;
      throw new StoreError("in_doubt", { message: "A message that was dead is no longer dead" });
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
      return confirmation.isDone(statements.messageRemoved.bind(values));
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
