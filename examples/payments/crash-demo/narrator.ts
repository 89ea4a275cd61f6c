/** What the demo prints, each line from a source that can be checked. */
import { type Charge, readLedger } from "../provider-ledger.ts";
import type { Got, Purchase } from "./client.ts";
import { type OurTables, short } from "./tables.ts";

export function say(...lines: readonly string[]): void {
  for (const line of lines) console.log(line);
}

/** The provider's charges for an order, with the keys that came with them. */
export function chargesOf(
  ledger: string,
  { order }: Purchase,
): readonly { readonly charge: Charge; readonly key: string | null }[] {
  return readLedger(ledger).flatMap((entry) =>
    entry.did === "charge" && entry.charge.description === order ? [entry] : [],
  );
}

export function sayLedger(ledger: string, purchases: readonly Purchase[]): void {
  say("   The provider's ledger:");
  for (const purchase of purchases) {
    for (const { charge, key } of chargesOf(ledger, purchase)) {
      const amount = `${(charge.amount / 100).toFixed(2)} ${charge.currency}`;
      say(`     ${purchase.label}  ${charge.id}: ${amount}, under the key ${short(key)}`);
    }
  }
}

export function sayTables(purchases: readonly Purchase[], tables: readonly OurTables[]): void {
  say("   Our tables:");
  for (const [index, { label }] of purchases.entries()) {
    const { record, steps, rows } = tables[index] ?? { record: null, steps: [], rows: [] };
    const indent = " ".repeat(label.length + 7);
    say(`     ${label}  ${rows.join(", ")}`);
    if (record === null) say(`${indent}no record of the charge in progress`);
    else say(`${indent}record: ${record}`, ...steps.map((step) => `${indent}step ${step}`));
  }
}

export function sayAnswer({ label }: Purchase, { status, replayed, retryAfterSeconds, body }: Got): void {
  const again = retryAfterSeconds === null ? "" : `, come again in ${retryAfterSeconds} s`;
  say(`     ${label}  ${status} ${textOf(body)}${again}${replayed ? " (replayed)" : ""}`);
}

/** The code of a problem is sufficient. */
function textOf(body: string): string {
  const { code } = JSON.parse(body) as { readonly code?: string };
  return code ?? body;
}
