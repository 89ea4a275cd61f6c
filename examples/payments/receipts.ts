/**
 * Receipts are sent after their payment has committed: they are written to the outbox with it, and a worker sends them, even
 * if the process that took the payment is gone.
 */
import { appendFileSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import type { Effect, Latchkey } from "latchkey";

export interface Receipt {
  readonly account: string;
  readonly payment: number;
  readonly amount: number;
  readonly currency: string;
}

interface SentReceipt extends Receipt {
  readonly messageId: string;
}

export function defineReceipt<Tx>(latchkey: Latchkey<Tx>, mail: MailService): Effect<Receipt, SentReceipt> {
  return latchkey.effect("receipt.send", {
    deduplication: "provider",
    dedupeWindowMs: 24 * 60 * 60 * 1000,
    execute: async (receipt: Receipt, { key }) => mail.send({ ...receipt, messageId: key }),
  });
}

/** A mail service like real ones: it recognises a message by its id, and sends it once. */
export interface MailService {
  send(receipt: SentReceipt): SentReceipt;
  sentTo(account: string): readonly SentReceipt[];
}

/** @param path of a file with one line per receipt. */
export function openMailService(path: string): MailService {
  mkdirSync(dirname(path), { recursive: true });
  const sent = (): readonly SentReceipt[] =>
    existsSync(path)
      ? readFileSync(path, "utf8")
          .split("\n")
          .slice(0, -1)
          .map((line) => JSON.parse(line))
      : [];
  return {
    send(receipt) {
      const before = sent().find(({ messageId }) => messageId === receipt.messageId);
      if (before === undefined) appendFileSync(path, `${JSON.stringify(receipt)}\n`);
      return before ?? receipt;
    },
    sentTo: (account) => sent().filter((receipt) => receipt.account === account),
  };
}
