/** The options of an inbox, and how they are resolved. */
import { checkOptions, type OptionNames } from "../known-options.ts";
import { timerMaxMs } from "../ports.ts";
import type { Message } from "./broker.ts";

export interface InboxOptions<I> {
  /** The tenant on whose behalf a message runs; a text if all messages have the same. */
  readonly tenant: string | ((message: Message) => string);
  /** The key of a message, the same for every delivery and every copy of it. Default: the id that its sender gave it. */
  readonly key?: (message: Message) => string | null;
  /** Makes the input. If it throws, the message becomes a dead letter. Default: the body as JSON. */
  readonly decode?: (message: Message) => I;
  /** A message becomes a dead letter after this many failed runs. Default 5. */
  readonly failuresMax?: number;
  /**
   * A message becomes a dead letter after this many deaths of a process that ran it. The first delivery is not counted. After
   * the first counted death the message runs alone, while no other message of this inbox runs. Default 3.
   */
  readonly killsMax?: number;
  /**
   * How long the inbox holds a message and retries it while it is running elsewhere or the store cannot be used; then it gives
   * the message back. The operation must remember keys for longer than this and `backoffMaxMs` together. Default 10 seconds.
   */
  readonly holdMs?: number;
  /** Pause after the first failed run; doubles, with jitter, up to `backoffMaxMs`. Default 1,000. */
  readonly backoffMs?: number;
  /** The longest pause between two runs, in milliseconds. Default 60,000. */
  readonly backoffMaxMs?: number;
  /**
   * How many messages may share a transaction, from 2 to 64: those that arrive while one transaction runs go into the next.
   * Each has a savepoint of its own. For operations under `transaction` whose handlers are short and only write through their
   * `tx`. Default false: a transaction for each message.
   */
  readonly batchSize?: number | false;
  /** How long failures of a message that is not delivered again are remembered. Default 30 days. */
  readonly keepMs?: number;
}

export interface InboxSettings<I> extends Required<Omit<InboxOptions<I>, "tenant">> {
  readonly tenant: (message: Message) => string;
}

export const inboxOptionNames = {
  tenant: true,
  key: true,
  decode: true,
  failuresMax: true,
  killsMax: true,
  holdMs: true,
  backoffMs: true,
  backoffMaxMs: true,
  batchSize: true,
  keepMs: true,
} as const satisfies OptionNames<InboxOptions<never>>;

const day = 24 * 60 * 60 * 1_000;

/** @throws {TypeError} when an option is missing or out of range. */
export function resolveInboxOptions<I>(options: InboxOptions<I>): InboxSettings<I> {
  checkOptions("createInbox", options, inboxOptionNames);
  const { tenant, key = ({ id }) => id, decode = decodeJsonBody } = options;
  const isText = typeof tenant === "string" && tenant !== "";
  if (!isText && typeof tenant !== "function") {
    throw new TypeError(
      'tenant must be a function of the message, or a text for a single tenant (for example "main")',
    );
  }
  for (const [name, value] of Object.entries({ key, decode })) {
    if (typeof value !== "function") throw new TypeError(`${name} must be a function of the message`);
  }
  const numbers = {
    failuresMax: options.failuresMax ?? 5,
    killsMax: options.killsMax ?? 3,
    holdMs: options.holdMs ?? 10_000,
    backoffMs: options.backoffMs ?? 1_000,
    backoffMaxMs: options.backoffMaxMs ?? 60_000,
    keepMs: options.keepMs ?? 30 * day,
  };
  checkNumbers(numbers);
  return {
    ...numbers,
    batchSize: checkedBatchSize(options.batchSize ?? false),
    tenant: isText ? () => tenant : (tenant as (message: Message) => string),
    key,
    decode,
  };
}

/** Postgres keeps 64 subtransactions of a transaction in memory; with more, every other transaction gets slower. */
const batchSizeMax = 64;

function checkedBatchSize(size: number | false): number | false {
  if (size === false || (Number.isSafeInteger(size) && size >= 2 && size <= batchSizeMax)) return size;
  throw new TypeError(`batchSize must be false, or a whole number from 2 to ${batchSizeMax} (got ${size})`);
}

function checkNumbers({ keepMs, ...rest }: Readonly<Record<string, number>>): void {
  for (const [field, value] of Object.entries({ ...rest, keepMs })) {
    if (value === undefined || !Number.isSafeInteger(value) || value <= 0) {
      throw new TypeError(`${field} must be a positive whole number (got ${value})`);
    }
    if (field !== "keepMs" && value > timerMaxMs)
      throw new TypeError(`${field} must be at most ${timerMaxMs}`);
  }
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

function decodeJsonBody<I>({ body }: Message): I {
  return JSON.parse(utf8.decode(body)) as I;
}
