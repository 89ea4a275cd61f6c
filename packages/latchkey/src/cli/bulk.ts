/** How commands act on everything that matches a filter: list it first, then decide one by one. */
import type { QueueFilter } from "../operator/queues.ts";
import { type CommandContext, CommandError, type ExitCode, UsageError } from "./command.ts";
import { shown, shownLines } from "./text.ts";
import type { CommandStore } from "./with-store.ts";

export const bulkOptions = {
  all: { type: "boolean" },
  tenant: { type: "string" },
  operation: { type: "string" },
  "older-than": { type: "string" },
  "error-code": { type: "string" },
  yes: { type: "boolean" },
  "dry-run": { type: "boolean" },
  json: { type: "boolean" },
} as const;

export interface BulkValues {
  readonly tenant?: string | undefined;
  readonly operation?: string | undefined;
  readonly effect?: string | undefined;
  readonly "older-than"?: string | undefined;
  readonly "error-code"?: string | undefined;
  readonly yes?: boolean | undefined;
  readonly "dry-run"?: boolean | undefined;
  readonly json?: boolean | undefined;
}

export interface Target {
  /** The id or name that the command takes. */
  readonly id: string;
  readonly tenant: string | null;
  readonly operation: string;
}

export interface Bulk<T extends Target> {
  /** The action, such as `settle`. */
  readonly verb: string;
  readonly targets: AsyncIterable<T>;
  /**
   * Decides about one target, or in a dry run makes the checks that it can.
   *
   * @returns the audit row's id; empty in a dry run
   * @throws {CommandError} with exit code 4 if it is refused
   */
  act(target: T, dryRun: boolean): Promise<string>;
}

const units: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** @throws {UsageError} */
export function durationOf(option: string, text: string): number {
  const [, count, unit] = /^(\d{1,6})([smhd])$/u.exec(text) ?? [];
  const unitMs = units[unit ?? ""];
  if (count === undefined || unitMs === undefined) {
    throw new UsageError(`--${option} takes a time such as 90s, 15m, 2h or 3d.`);
  }
  return Number(count) * unitMs;
}

/**
 * Checks that filters are used only with `--all`, and names only without it.
 *
 * @param single the options that also apply to a single target
 * @throws {UsageError}
 */
export function checkAll(
  values: BulkValues & { readonly all?: boolean | undefined },
  positionals: readonly string[],
  single: readonly string[],
): void {
  if (values.all) {
    if (positionals.length > 0) throw new UsageError("--all takes no names: choose by filters.");
    return;
  }
  const filters = [
    "tenant",
    "operation",
    "effect",
    "messages",
    "state",
    "older-than",
    "error-code",
    "yes",
    "dry-run",
  ];
  for (const option of filters) {
    if (!single.includes(option) && Reflect.get(values, option) !== undefined) {
      throw new UsageError(`--${option} needs --all.`);
    }
  }
}

/** No record has this id: reading it only returns the store's time. */
const noId = "00000000-0000-0000-0000-000000000000";

/** @throws {UsageError} */
export async function filterOf(
  store: Pick<CommandStore, "readById">,
  values: BulkValues,
): Promise<QueueFilter> {
  const { tenant, operation, effect, "error-code": errorCode, "older-than": olderThan } = values;
  const ageMs = olderThan === undefined ? null : durationOf("older-than", olderThan);
  const notAfter = ageMs === null ? null : (await store.readById(null, noId)).now - ageMs;
  return {
    ...(tenant !== undefined && { tenant }),
    ...(operation !== undefined && { operation }),
    ...(effect !== undefined && { effect }),
    ...(errorCode !== undefined && { errorCode }),
    ...(notAfter !== null && { notAfter }),
  };
}

/** A balance between visible progress and readable output. */
const progressEvery = 100;

/**
 * @returns 0 if all were decided, 1 if some were refused or not reached
 * @throws {UsageError} without `--yes` or `--dry-run`
 */
export async function runBulk<T extends Target>(
  context: CommandContext,
  bulk: Bulk<T>,
  { json = false, yes = false, "dry-run": dryRun = false }: BulkValues,
): Promise<ExitCode> {
  const targets: T[] = [];
  for await (const target of bulk.targets) targets.push(target);
  if (!dryRun && !yes && targets.length > 0) {
    throw new UsageError(
      `${targets.length} match, and nothing was changed. Use --dry-run to see them, and --yes to ${bulk.verb} them.`,
    );
  }
  const run = new Run(context, bulk, dryRun, json, targets.length);
  for (const [at, target] of targets.entries()) {
    const failure = await run.one(target);
    if (failure !== null) return run.stop(targets.length - at, target, failure);
    if ((at + 1) % progressEvery === 0) context.complain(`${at + 1} of ${targets.length} …`);
  }
  return run.end(0);
}

class Run<T extends Target> {
  readonly #context: CommandContext;
  readonly #bulk: Bulk<T>;
  readonly #dryRun: boolean;
  readonly #json: boolean;
  readonly #total: number;
  #done = 0;
  #refused = 0;

  constructor(context: CommandContext, bulk: Bulk<T>, dryRun: boolean, json: boolean, total: number) {
    this.#context = context;
    this.#bulk = bulk;
    this.#dryRun = dryRun;
    this.#json = json;
    this.#total = total;
  }

  /** Returns the error it failed with; null if it was decided or refused. */
  async one(target: T): Promise<unknown> {
    try {
      const audit = await this.#bulk.act(target, this.#dryRun);
      this.#done += 1;
      this.#say(target, { done: !this.#dryRun, audit: this.#dryRun ? null : audit, why: null });
      return null;
    } catch (error) {
      if (!(error instanceof CommandError) || error.exitCode < 3) return error;
      this.#refused += 1;
      this.#say(target, { done: false, audit: null, why: error.message });
      return null;
    }
  }

  #say(
    { id, tenant, operation }: T,
    result: { readonly done: boolean; readonly audit: string | null; readonly why: string | null },
  ): void {
    if (this.#json) {
      this.#line({ id, tenant, operation, ...result });
      return;
    }
    const what = [id, tenant ?? "", operation].map(shown).join("  ");
    if (result.why !== null) this.#context.complain(`refused  ${what}  ${result.why}`);
    else this.#context.print(`${this.#dryRun ? `would ${this.#bulk.verb}` : "done"}  ${what}`);
  }

  #line(value: unknown): void {
    this.#context.print(shownLines(JSON.stringify(value)));
  }

  /** @param left how many were not reached, including the one that failed */
  stop(left: number, { id }: T, failure: unknown): ExitCode {
    const message = failure instanceof Error ? failure.message : String(failure);
    this.#context.complain(
      `Stopped at ${id}: ${shown(message)}. It is not known whether that one was decided; the same command continues with the rest.`,
    );
    return this.end(left);
  }

  end(left: number): ExitCode {
    const [done, refused, total] = [this.#done, this.#refused, this.#total];
    if (this.#json) this.#line({ summary: true, dryRun: this.#dryRun, total, done, refused, left });
    else if (total === 0) this.#context.print("Nothing matches.");
    else if (this.#dryRun) {
      this.#context.print(`${done} of ${total} would be decided, ${refused} refused. Nothing was changed.`);
    } else this.#context.print(`${done} of ${total} done, ${refused} refused, ${left} not reached.`);
    return refused === 0 && left === 0 ? 0 : 1;
  }
}
