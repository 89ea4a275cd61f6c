/** What a person decides about dead effects and messages: `latchkey redrive` and `latchkey discard`. */
import { setTimeout as pause } from "node:timers/promises";
import { StoreError } from "../errors.ts";
import type { Republish } from "../messages/dead-messages.ts";
import { systemPorts } from "../ports.ts";
import type { OperatorProof } from "../settle.ts";
import type { DeadDecision, DeadNote, OutboxSupport } from "../stores/outbox.ts";
import { type Command, type CommandContext, CommandError, type ExitCode, UsageError } from "./command.ts";
import { databaseHelp, databaseOptions, isId, parse, signed } from "./options.ts";
import { outboxOf } from "./outbox-of.ts";
import { shown, shownJson } from "./text.ts";
import { type OpenService, type ServiceValues, serviceOptions, withService } from "./with-service.ts";

const commonHelp = `\
  --operator <name>     who decides
  --reason <text>       why
  --config <file>       the service's config, whose store is then used
${databaseHelp}
  --json                print the result as JSON

Ids are in \`latchkey list --dead\`, of messages with --messages. Several are decided one after the other. An audit row keeps
each decision with your name and reason.

Exit codes: 0 done, 1 failed, 2 called wrongly, 4 one of them is not dead, not there, or a message that could not be
published again for want of a config: with it nothing was done.`;

export const redrive: Command = {
  summary: "have a dead effect delivered, or a dead message run, after all",
  help: `Usage: latchkey redrive <id>... --operator <name> --reason <text> [options]

Puts dead effects back: they are due at once, under the same downstream key, and their tries count from the start. What is in
doubt about an earlier send stays in doubt, and the effect's definition decides what that means.

Publishes dead messages again, by the \`republish\` of the config, and then removes them: an inbox runs each as new, unless
it has run. One that could not be published stays dead, and the same command goes on with it.

  --never-happened      no earlier send has happened or ever will: you have looked it up on the other side. Sent again while
                        one still could, it happens twice
${commonHelp}`,
  run(context) {
    const { values, positionals } = parse({
      args: [...context.args],
      allowPositionals: true,
      options: { ...decideOptions, "never-happened": { type: "boolean" } },
    });
    const doubt = values["never-happened"] ? "cleared" : "kept";
    return decideAll(context, values, positionals, { event: "redrive", doubt });
  },
};

export const discard: Command = {
  summary: "give up a dead effect or message for good: it happened, or never shall",
  help: `Usage: latchkey discard <id>... --operator <name> --reason <text> [options]

Counts dead effects as delivered, without a send and without \`onDelivered\`: they happened, or never shall. Those that waited
behind one in its aggregate go on. They are kept for another 24 hours to be seen.

Removes dead messages, with what they carry.

${commonHelp}`,
  run(context) {
    const { values, positionals } = parse({
      args: [...context.args],
      allowPositionals: true,
      options: decideOptions,
    });
    return decideAll(context, values, positionals, { event: "discard", keepMs: discardedKeepMs });
  },
};

const discardedKeepMs = 24 * 60 * 60 * 1_000;
const decideOptions = {
  ...databaseOptions,
  ...serviceOptions,
  operator: { type: "string" },
  reason: { type: "string" },
  json: { type: "boolean" },
} as const;

interface DecideValues extends ServiceValues {
  readonly operator?: string | undefined;
  readonly reason?: string | undefined;
  readonly json?: boolean | undefined;
}

interface Decided {
  readonly id: string;
  /** What it is. Null: no dead one of either has this id. */
  readonly kind: "effect" | "message" | null;
  /** Null: nothing was written. */
  readonly audit: string | null;
}

async function decideAll(
  context: CommandContext,
  values: DecideValues,
  ids: readonly string[],
  decision: DeadDecision,
): Promise<ExitCode> {
  checkIds(ids);
  const by = { operator: signed("operator", values.operator), reason: signed("reason", values.reason) };
  const decided: Decided[] = [];
  const print = () => {
    const all = decided.map((one) => ({ ...one, done: one.audit !== null }));
    if (values.json) context.print(shownJson({ event: decision.event, ...by, decided: all }));
  };
  try {
    await withService(context, values, async (service) => {
      for (const id of new Set(ids)) {
        const one = await decide(service, id, decision, by);
        decided.push(one);
        if (!values.json) say(context, decision, one);
      }
    });
  } catch (error) {
    // Of those before a failure it must be known what was done.
    if (decided.length > 0) print();
    throw error;
  }
  print();
  return decided.every(({ audit }) => audit !== null) ? 0 : 4;
}

/** No id is of an effect and of a message: both are random. */
async function decide(
  service: OpenService,
  id: string,
  decision: DeadDecision,
  by: OperatorProof,
): Promise<Decided> {
  const { store, messages, republish } = service;
  if (store.outbox !== null) {
    const auditId = systemPorts.random.uuid(systemPorts.clock.wallMs());
    const note = { id: auditId, actor: by.operator, reason: by.reason };
    const done = await decideSurely(outboxOf(store), id, decision, note);
    if (done) return { id, kind: "effect", audit: note.id };
  }
  if ((await messages.find(id)) === null) return { id, kind: null, audit: null };
  if (decision.event === "discard") return { id, kind: "message", audit: await messages.discard(id, by) };
  if (republish === null) return { id, kind: "message", audit: null };
  const publish: Republish = async (message) => {
    try {
      await republish(message);
    } catch (cause) {
      const said = cause instanceof Error ? cause.message : String(cause);
      throw new CommandError(shown(`${id} could not be published again, and stays dead: ${said}`), { cause });
    }
  };
  return { id, kind: "message", audit: await messages.redrive(id, by, publish) };
}

function checkIds(ids: readonly string[]): void {
  if (ids.length === 0) throw new UsageError("Say which effect or message, by its id.");
  const wrong = ids.find((id) => !isId(id));
  if (wrong !== undefined) throw new UsageError(`${shown(wrong)} is not the id of an effect or a message.`);
}

/** A lost reply says nothing; the same audit id makes the repetition harmless. */
async function decideSurely(
  outbox: OutboxSupport,
  id: string,
  decision: DeadDecision,
  note: DeadNote,
): Promise<boolean> {
  for (let pauseMs = 100; ; pauseMs *= 2) {
    try {
      return await outbox.decide(id, decision, note);
    } catch (error) {
      if (!(error instanceof StoreError) || pauseMs > pauseMaxMs) throw error;
      await pause(pauseMs);
    }
  }
}

/** Five tries within three seconds. */
const pauseMaxMs = 800;

function say(
  { print, complain }: CommandContext,
  { event }: DeadDecision,
  { id, kind, audit }: Decided,
): void {
  if (audit !== null) {
    print(`${id}: dead → ${become(event, kind)} (${event}), audit row ${audit}.`);
  } else if (kind === "message") {
    complain(
      `${id} is a message: publishing it again takes a --config with \`republish\`. Nothing was changed.`,
    );
  } else {
    complain(`${id} is not dead, or not there, as an effect or a message: nothing was changed.`);
  }
}

function become(event: DeadDecision["event"], kind: Decided["kind"]): string {
  if (kind === "message") return event === "redrive" ? "published again" : "removed";
  return event === "redrive" ? "pending, due now" : "delivered";
}
