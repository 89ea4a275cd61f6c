/** What the clients of the failover tests submit: one operation for each way of running, judged by tables without constraints. */
import type {
  Latchkey,
  LookedUp,
  LookupQuestion,
  Operation,
  OwnedOperation,
  StepAttempt,
} from "../../../packages/latchkey/src/index.ts";

/**
 * `transaction`: a business row and an outbox row. `lease`: one send to an other side that does not de-duplicate, at most
 * once. `resume`: a phase, a call with a key and a last phase.
 */
export const modes = ["transaction", "lease", "resume"] as const;
export type Mode = (typeof modes)[number];

/** What every execution answers: its own token, so that another execution's answer is another one. */
export interface Value {
  readonly by: string;
}

export const tables = `
  create table business (key text, mode text, record uuid, token text);
  create table reserved (key text, record uuid, token text)`;

/** Anything with `query`, such as the store's transaction. */
export interface Queries {
  query(text: string, values: unknown[]): Promise<unknown>;
}

/** A handler, or `run`, has begun. */
export interface Ran {
  readonly ran: string;
  readonly mode: Mode;
  readonly record: string;
  readonly attempt: number;
  readonly token: string;
}

export interface Surroundings {
  readonly receiverUrl: string;
  readonly tenant: string;
  tell(ran: Ran): void;
}

/** @param input what is asked for; another one under the same key is key misuse */
export type Submit = (
  key: string,
  input?: string,
) => Promise<{
  readonly kind: string;
  readonly recordId?: string | null;
  readonly value?: unknown;
}>;

const leaseMs = 1_000;
const insert = "insert into business (key, mode, record, token) values ($1, $2, $3, $4)";

/** How to submit in each mode. */
export function defineWork<Tx extends Queries>(
  latchkey: Latchkey<Tx>,
  around: Surroundings,
): Readonly<Record<Mode, Submit>> {
  return {
    transaction: transactionWork(latchkey, around),
    lease: leaseWork(latchkey, around),
    resume: resumeWork(latchkey, around),
  };
}

function transactionWork<Tx extends Queries>(
  latchkey: Latchkey<Tx>,
  { receiverUrl, tenant, tell }: Surroundings,
): Submit {
  const notice = latchkey.effect<{ name: string }, unknown>("notice", {
    deduplication: "provider",
    dedupeWindowMs: 24 * 60 * 60 * 1_000,
    limits: { timeoutMs: 1_000 },
    delivery: { backoffMs: 100, backoffMaxMs: 500 },
    execute: ({ name }, { key, signal }) =>
      send(receiverUrl, { name, reference: key, deduplicated: true }, signal),
  });
  const operation: Operation = latchkey.operation("orders.place", { execution: "transaction" });
  return (key, input = key) =>
    latchkey.run(operation as Operation<"transaction">, { tenant, key, input }, async ({ tx, attempt }) => {
      const { token, attempt: number } = attempt.fence;
      tell({ ran: key, mode: "transaction", record: attempt.id, attempt: number, token });
      await tx.query(insert, [key, "transaction", attempt.id, token]);
      attempt.enqueue(notice, { name: `notice:${key}` });
      return { by: token };
    });
}

function leaseWork<Tx extends Queries>(
  latchkey: Latchkey<Tx>,
  { receiverUrl, tenant, tell }: Surroundings,
): Submit {
  const operation = latchkey.operation("letters.send", {
    execution: "lease",
    leaseMs,
    leaseEnd: "reconcile",
    lookup: (question) => askReceiver(receiverUrl, question),
  });
  return (key, input = key) =>
    latchkey.run(operation, { tenant, key, input }, async ({ attempt }) => {
      const { token, attempt: number } = attempt.fence;
      tell({ ran: key, mode: "lease", record: attempt.id, attempt: number, token });
      const sent = { name: `lease:${key}`, reference: attempt.id, deduplicated: false };
      await send(receiverUrl, sent, attempt.signal);
      return { by: token };
    });
}

/** The other side is asked, and where it knows nothing yet, closes the reference for good. */
async function askReceiver(url: string, { recordId, signal }: LookupQuestion): Promise<LookedUp> {
  const body = JSON.stringify({ reference: recordId });
  const response = await fetch(`${url}/close`, { method: "POST", body, signal });
  const closed = (await response.json()) as { readonly closed?: true };
  return closed.closed === true
    ? { kind: "failed", answer: { status: 410, body: { by: "closed" } } }
    : { kind: "completed", answer: { body: { by: "found" } } };
}

function resumeWork<Tx extends Queries>(
  latchkey: Latchkey<Tx>,
  { receiverUrl, tenant, tell }: Surroundings,
): Submit {
  const charge = latchkey.effect<{ name: string }, unknown>("charge", {
    deduplication: "provider",
    dedupeWindowMs: 24 * 60 * 60 * 1_000,
    limits: { timeoutMs: 1_000 },
    retry: { attempts: 2, backoffMs: 20, backoffMaxMs: 20 },
    execute: ({ name }, { key, signal }) =>
      send(receiverUrl, { name, reference: key, deduplicated: true }, signal),
  });
  const operation: OwnedOperation<"lease", string> = latchkey.operation("cards.charge", {
    execution: "lease",
    leaseMs,
    leaseEnd: "resume",
    // Each lease that ends while the standby is away costs an attempt.
    attemptsMax: 1_000,
    version: "1",
    run: async (key: string, attempt: StepAttempt<Tx>) => {
      const { token, attempt: number } = attempt.fence;
      tell({ ran: key, mode: "resume", record: attempt.id, attempt: number, token });
      await attempt.phase("reserved", async (tx) => {
        await tx.query("insert into reserved (key, record, token) values ($1, $2, $3)", [
          key,
          attempt.id,
          token,
        ]);
      });
      await attempt.call("charged", charge, { name: `charge:${key}` });
      return attempt.finish("booked", async (tx) => {
        await tx.query(insert, [key, "resume", attempt.id, token]);
        return { status: 201, body: { by: token } };
      });
    },
  });
  return (key, input = key) => latchkey.run(operation, { tenant, key, input });
}

async function send(
  url: string,
  sent: { readonly name: string; readonly reference: string; readonly deduplicated: boolean },
  signal: AbortSignal,
): Promise<unknown> {
  const body = JSON.stringify({ ...sent, pid: process.pid });
  const response = await fetch(`${url}/send`, { method: "POST", body, signal });
  if (response.status !== 201) throw new Error(`the receiver answered ${response.status}`);
  return response.json();
}
