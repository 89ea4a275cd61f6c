/** Messages through inboxes of several processes, and what holds of their verdicts, records and rows. */
import { StoreError } from "../../../packages/latchkey/src/errors.ts";
import type { Message, Verdict } from "../../../packages/latchkey/src/messages/broker.ts";
import {
  createInbox,
  type Inbox,
  type MessageHandler,
} from "../../../packages/latchkey/src/messages/inbox.ts";
import type { PostgresStore } from "../../../packages/latchkey/src/stores/postgres.ts";
import { messageInsert } from "./handler-texts.ts";
import type { Actor, Cast, Session, Tx, World } from "./scenario.ts";
import type { Seen } from "./seen.ts";

interface Input {
  readonly key: string;
}

/** One run of a message's handler. */
export interface Run {
  readonly tx: Tx;
  readonly world: World;
  readonly key: string;
  readonly life: string;
  /** Writes the row that is expected of the message. */
  write(): Promise<unknown>;
}

export type Handler = (run: Run) => Promise<unknown>;

export interface Mail {
  readonly handler: Handler;
  /** Its handler never succeeds. */
  readonly fails?: true;
}

/** What a handler sends without parameters, which no first pipeline can carry. */
export function rowText({ world, key, life }: Run, by: string): string {
  return `insert into ${world.business} (key, life, by) values ('${key}', '${life}', '${by}')`;
}

export const writes: Handler = (run) => run.write();

interface Delivery {
  readonly mail: string;
  readonly message: Message;
  verdict: Verdict | null;
}

/** More than what is left to do ever takes, once nothing is in the way. */
const redeliveriesMax = 3;
const batchSize = 20;

/** The messages of one interleaving. */
export class Mailbox {
  readonly #world: World;
  readonly #mails: Readonly<Record<string, Mail>>;
  readonly #deliveries: Delivery[] = [];
  readonly #actors: Actor[] = [];

  constructor(world: World, mails: Readonly<Record<string, Mail>>) {
    this.#world = world;
    this.#mails = mails;
  }

  /**
   * Messages that share a transaction of this session, in this order. A name may be there several times: a copy, which is a
   * message of its own with the same key.
   */
  async batch(index: number, mails: readonly string[]): Promise<void> {
    const session = this.#session(index);
    const { promise: gathered, resolve: go } = Promise.withResolvers<void>();
    const store = gatheringStore(session.store, gathered);
    const inbox = this.#inbox({ ...session, store }, { batchSize });
    const first = inbox.consume(this.#message("first", `first of session ${index}`));
    const consumed = mails.map((mail, place) => this.#consume(inbox, mail, `${mail} in ${index}, ${place}`));
    await new Promise((resolve) => setImmediate(resolve));
    this.#actors.push({
      name: `batch ${index}`,
      run() {
        go();
        return Promise.all([first, ...consumed]);
      },
    });
  }

  /** A message in a transaction of its own. */
  single(index: number, mail: string): void {
    const inbox = this.#inbox(this.#session(index), {});
    this.#actors.push({
      name: `single ${index}`,
      run: () => this.#consume(inbox, mail, `${mail} in ${index}`),
    });
  }

  /** @param calm the session in which every message comes again that was not acknowledged */
  cast(calm: number, check: (seen: Seen) => readonly string[] = () => []): Cast {
    return {
      actors: this.#actors,
      moments: [],
      aftermath: () => this.#redeliver(this.#inbox(this.#session(calm), {})),
      check: async (seen) => {
        this.#count(seen);
        const ofMails = Object.keys(this.#mails).flatMap((mail) => this.#brokenMail(mail, seen));
        return [...ofMails, ...this.#deliveries.flatMap((one) => this.#brokenEnd(one)), ...check(seen)];
      },
    };
  }

  keyOf(mail: string): string {
    return `${this.#world.key.key} ${mail}`;
  }

  #session(index: number): Session {
    const session = this.#world.sessions[index];
    if (session === undefined) throw new RangeError(`No session ${index}`);
    return session;
  }

  #inbox(session: Session, options: { readonly batchSize?: number }): Inbox {
    const world = this.#world;
    const handler: MessageHandler<Tx, "transaction", Input> = async ({ tx, attempt, input: { key } }) => {
      const { id: life } = attempt;
      const write = () => tx.query(messageInsert(world.business), [key, life]);
      const mail = Object.entries(this.#mails).find(([name]) => this.keyOf(name) === key);
      await mail?.[1].handler({ tx, world, key, life, write });
    };
    const latchkey = world.latchkey(session);
    const { tenant, scope } = world.key;
    return createInbox<Tx, "transaction", Input>(
      latchkey,
      latchkey.operation(scope),
      {
        tenant,
        key: ({ body }) => inputOf(body).key,
        decode: ({ body }) => inputOf(body),
        holdMs: 1,
        ...options,
      },
      handler,
    );
  }

  #message(mail: string, name: string): Message {
    return {
      id: `${this.#world.key.key}, ${name}`,
      source: "p4",
      body: Buffer.from(JSON.stringify({ key: this.keyOf(mail) } satisfies Input)),
      contentType: "application/json",
      headers: {},
      redelivered: false,
    };
  }

  async #consume(inbox: Inbox, mail: string, name: string): Promise<void> {
    const delivery: Delivery = { mail, message: this.#message(mail, name), verdict: null };
    this.#deliveries.push(delivery);
    delivery.verdict = await inbox.consume(delivery.message);
    this.#world.tally.count(`message ${delivery.verdict.because}`);
  }

  async #redeliver(inbox: Inbox): Promise<void> {
    for (const delivery of this.#deliveries) {
      const fails = this.#mails[delivery.mail]?.fails === true;
      const tries = fails ? 1 : redeliveriesMax;
      for (let redeliveries = 0; redeliveries < tries && delivery.verdict?.settle !== "ack"; redeliveries++) {
        delivery.verdict = await inbox.consume({ ...delivery.message, redelivered: true });
      }
    }
  }

  /** How many records have come with one COMMIT. */
  #count({ records }: Seen): void {
    const own = records.filter(({ key }) => key.startsWith(`${this.#world.key.key} `));
    const groups = [...Map.groupBy(own, ({ committed }) => committed).values()];
    const shared = groups.filter(({ length }) => length > 1).length;
    this.#world.tally.count("COMMIT of several messages", shared);
  }

  #brokenMail(mail: string, { records, business }: Seen): readonly string[] {
    const key = this.keyOf(mail);
    const rows = business.filter((row) => row.key === key);
    const record = records.find((one) => one.key === key);
    const isAcknowledged = this.#deliveries.some((one) => one.mail === mail && one.verdict?.settle === "ack");
    const broken: string[] = [];
    if (this.#mails[mail]?.fails === true && record !== undefined)
      broken.push(`I8: ${mail} has failed, and its record is ${record.state}`);
    if (record?.state !== "completed") {
      if (rows.length > 0) broken.push(`I1: ${rows.length} rows of ${mail} are there without its record`);
      if (isAcknowledged) broken.push(`I15: ${mail} was acknowledged, and its record is not there`);
      return broken;
    }
    const [row] = rows;
    if (rows.length !== 1 || row === undefined)
      return [...broken, `I1: ${rows.length} rows of ${mail}, whose record is completed`];
    if (row.life !== record.id) broken.push(`I1: the row of ${mail} is of another life than its record`);
    if (row.by !== "its handler") broken.push(`I1: the row of ${mail} was written by ${row.by}`);
    if (row.committed !== record.committed)
      broken.push(`I9: the row of ${mail} was committed by another transaction than its record`);
    return broken;
  }

  #brokenEnd({ mail, message, verdict }: Delivery): readonly string[] {
    const isEnded = this.#mails[mail]?.fails === true ? verdict !== null : verdict?.settle === "ack";
    return isEnded ? [] : [`L1: ${message.id} came to ${verdict?.because ?? "no verdict"}`];
  }
}

function inputOf(body: Uint8Array): Input {
  return JSON.parse(Buffer.from(body).toString("utf8")) as Input;
}

/** A store that cannot open its first shared transaction, and says so when the messages of the next one have gathered. */
function gatheringStore(store: PostgresStore<Tx>, gathered: Promise<void>): PostgresStore<Tx> {
  const { transactions } = store;
  const runBatch = transactions?.runBatch;
  if (transactions === null || runBatch === undefined) throw new TypeError("The store has batches");
  let isFirst = true;
  return {
    ...store,
    transactions: {
      ...transactions,
      async runBatch(request, work) {
        if (!isFirst) return runBatch(request, work);
        isFirst = false;
        await gathered;
        throw new StoreError("not_sent");
      },
    },
  };
}
