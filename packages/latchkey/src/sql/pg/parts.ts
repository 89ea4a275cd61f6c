/** A transaction in parts: each sets a savepoint in the pipeline of its first statement, and can be undone by itself. */
import { systemPorts } from "../../ports.ts";
import { type GuardRules, guardClient, statementText } from "../guard-client.ts";
import type { BridgePart } from "../transaction.ts";
import { mayLeaveBehind } from "../transaction-control.ts";
import type { PgClient, PgTrailingQuery } from "./client.ts";
import type { TransactionWatch } from "./connection-state.ts";
import type { Connection } from "./connections.ts";
import { control, openError } from "./control-statements.ts";
import {
  type FirstPipeline,
  HandlerStatements,
  OpenQueries,
  type SentStatements,
} from "./handler-statements.ts";
import { type PipelineOptions, PipelineTimeout } from "./pipeline.ts";
import type { RepeatedStatements } from "./statement-names.ts";

/**
 * The name is random, so that no handler's code can contain it: if a handler set a savepoint of the same name inside its
 * part, only half of the part would be undone.
 */
function nameSavepoint() {
  const name = `latchkey_${systemPorts.random.token().replaceAll(/[^0-9a-f]/g, "")}`;
  return {
    savepoint: control("lk_savepoint", `savepoint ${name}`),
    release: control("lk_release", `release savepoint ${name}`),
    undo: control("lk_undo", `rollback to savepoint ${name}`),
  };
}

/** Made at the first use, because Cloudflare's runtime has no randomness while modules load; one for the process, because its statements are named. */
let made: ReturnType<typeof nameSavepoint> | null = null;
const savepoints = () => {
  made ??= nameSavepoint();
  return made;
};

export interface PartedStart {
  readonly connection: Connection;
  readonly watch: TransactionWatch;
  readonly repeated: RepeatedStatements | null;
  /** Whether statements may have names. */
  readonly mayName: () => boolean;
  readonly rules: GuardRules;
}

export class PartedTransaction implements SentStatements {
  readonly #start: PartedStart;
  readonly openQueries = new OpenQueries();
  readonly #statements: HandlerStatements[] = [];
  #changedSession = false;
  /** An undo ran into its time limit. What is sent after it would wait as long again. */
  #stuck: PipelineTimeout | null = null;
  /** Whether a savepoint is set. */
  #marked = false;
  #revokeLast = () => {};

  constructor(start: PartedStart) {
    this.#start = start;
  }

  get failure(): unknown {
    return this.#statements.find(({ failure }) => failure !== null)?.failure ?? null;
  }

  get named(): boolean {
    return this.#statements.some(({ named }) => named);
  }

  /** Whether the connection has not answered in time, so that it need not be waited for again. */
  get isStuck(): boolean {
    return this.#stuck !== null;
  }

  nameNothing(): void {
    this.#start.repeated?.end();
  }

  readonly mayHaveChangedSession = (): boolean => this.#changedSession;

  revoke(): void {
    this.#revokeLast();
  }

  /**
   * Called before the transaction ends, when the parts have been revoked: a statement that a handler has sent and not waited
   * for must not be run after it, outside of any transaction.
   *
   * @param waits false where the connection is ended without waiting for anything
   */
  async close(waits: boolean): Promise<void> {
    const waiting = this.#statements.filter((one) => one.waits);
    if (waits && waiting.length > 0) {
      await this.#start.connection.withinTimeout(() => Promise.all(waiting.map((one) => one.queued())));
    }
    for (const one of this.#statements) one.close();
  }

  part(): BridgePart<PgClient> {
    const { connection, watch, repeated, mayName, rules } = this.#start;
    const options = { canSend: () => !watch.ended, blocked: this.openQueries.blocked };
    const before = this.#statements.findLast(({ waits }) => waits);
    const mark = new Mark(connection, options, { follows: this.#marked, before }, () => {
      this.#marked = true;
    });
    const { client } = connection;
    const allowed = () => mayName() && !this.#changedSession;
    const statements = new HandlerStatements(client, repeated, allowed, mark, this.openQueries);
    this.#statements.push(statements);
    let changed = false;
    const guarded = guardClient(client, rules, (method, args) => {
      changed ||= guarded.mayHaveChangedSession() || mayLeaveBehind(statementText(args[0]));
      this.#changedSession ||= changed;
      return statements.send(method, args);
    });
    this.#revokeLast = guarded.revoke;
    return {
      tx: guarded.tx,
      used: guarded.used,
      flush: () => statements.queued(),
      revoke: guarded.revoke,
      mayHaveChangedSession: () => changed,
      state() {
        if (watch.ended) return "ended";
        return connection.state?.status === "E" ? "failed" : "usable";
      },
      undo: () => this.#undo(mark, statements),
    };
  }

  async #undo(mark: Mark, statements: HandlerStatements): Promise<void> {
    if (!mark.sent) return;
    if (this.#stuck !== null) throw this.#stuck;
    const { connection, watch } = this.#start;
    // If this savepoint were not set, the name would still refer to that of the part before.
    const marked = await connection.withinTimeout(async () => {
      await mark.open();
      await statements.queued();
    });
    if (marked.kind !== "returned") {
      statements.close();
      if (marked.kind === "threw") throw marked.error;
      this.#stuck = new PipelineTimeout("The savepoint is not set yet");
      throw this.#stuck;
    }
    const { blocked } = this.openQueries;
    const reply = await connection.sendPipeline([savepoints().undo], {
      canSend: () => !watch.ended,
      blocked,
    });
    if (reply.error instanceof PipelineTimeout) this.#stuck = reply.error;
    if (reply.error !== null || reply.status !== "T") throw openError(reply);
  }
}

/** A part among the others of its transaction. */
interface PartPosition {
  /** Whether an earlier part's savepoint is still set, which is then released. */
  readonly follows: boolean;
  /** The statements of the last part before it that had some waiting when it began. */
  readonly before: Pick<HandlerStatements, "waits" | "queued"> | undefined;
}

/** The savepoint of a part, which is set when the part sends something. */
class Mark implements FirstPipeline {
  readonly #connection: Connection;
  readonly #options: Pick<PipelineOptions, "canSend" | "blocked">;
  readonly #position: PartPosition;
  readonly #onSent: () => void;
  #opening: Promise<boolean> | null = null;
  #set = false;

  constructor(
    connection: Connection,
    options: Pick<PipelineOptions, "canSend" | "blocked">,
    position: PartPosition,
    onSent: () => void,
  ) {
    this.#connection = connection;
    this.#options = options;
    this.#position = position;
    this.#onSent = onSent;
  }

  get sent(): boolean {
    return this.#opening !== null;
  }

  /** A statement sent along with the savepoint would wait here for the previous part, and would not be counted as waiting. */
  get takesQuery(): boolean {
    return !this.sent && this.#position.before?.waits !== true;
  }

  get admitted(): boolean {
    return this.#set;
  }

  open(trailingQuery: PgTrailingQuery | null = null): Promise<boolean> {
    if (this.#opening === null) {
      this.#onSent();
      this.#opening = this.#open(trailingQuery);
      // A statement that waits for it gets its error; a handler may send none, so the rejection counts as handled.
      this.#opening.catch(() => {});
    }
    return this.#opening;
  }

  async #open(trailingQuery: PgTrailingQuery | null): Promise<boolean> {
    const { follows, before } = this.#position;
    // Otherwise a statement of the part before would come after this savepoint, and be undone with this part.
    if (before?.waits === true) await before.queued();
    const { release, savepoint } = savepoints();
    const statements = follows ? [release, savepoint] : [savepoint];
    const reply = await this.#connection.sendPipeline(
      statements,
      trailingQuery === null ? this.#options : { ...this.#options, trailingQuery, timeoutMs: null },
    );
    if (reply.replies.length < statements.length) throw openError(reply);
    this.#set = true;
    return true;
  }
}
