/** What a person decides about dead effects: `latchkey redrive` and `latchkey discard`. */
import { setTimeout as pause } from "node:timers/promises";
import { StoreError } from "../errors.ts";
import { systemPorts } from "../ports.ts";
import type { DeadDecision, DeadNote, OutboxSupport } from "../stores/outbox.ts";
import { type Command, type CommandContext, type ExitCode, UsageError } from "./command.ts";
import { databaseHelp, databaseOptions, parse, signed } from "./options.ts";
import { outboxOf } from "./outbox-of.ts";
import { shown, shownJson } from "./text.ts";
import { withStore } from "./with-store.ts";

const commonHelp = `\
  --operator <name>     who decides
  --reason <text>       why
${databaseHelp}
  --json                print the result as JSON

An effect's id is in \`latchkey list --dead\` and \`latchkey inspect\`. Several are decided one after the other. An audit row
keeps each decision with your name and reason.

Exit codes: 0 done, 1 failed, 2 called wrongly, 4 one of them is not dead, or not there: with it nothing was done.`;

export const redrive: Command = {
  summary: "have a dead effect delivered after all",
  help: `Usage: latchkey redrive <effect id>... --operator <name> --reason <text> [options]

Puts dead effects back: they are due at once, under the same downstream key, and their tries count from the start. What is in
doubt about an earlier send stays in doubt, and the effect's definition decides what that means.

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
  summary: "give up a dead effect for good: it happened, or never shall",
  help: `Usage: latchkey discard <effect id>... --operator <name> --reason <text> [options]

Counts dead effects as delivered, without a send and without \`onDelivered\`: they happened, or never shall. Those that waited
behind one in its aggregate go on. They are kept for another 24 hours to be seen.

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
  operator: { type: "string" },
  reason: { type: "string" },
  json: { type: "boolean" },
} as const;

interface DecideValues {
  readonly "database-url"?: string | undefined;
  readonly schema?: string | undefined;
  readonly operator?: string | undefined;
  readonly reason?: string | undefined;
  readonly json?: boolean | undefined;
}

interface Decided {
  readonly id: string;
  readonly done: boolean;
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
  const actor = signed("operator", values.operator);
  const reason = signed("reason", values.reason);
  const all = await withStore(context, values, async (store) => {
    const outbox = outboxOf(store);
    const decided: Decided[] = [];
    for (const id of new Set(ids)) {
      const note = { id: systemPorts.random.uuid(systemPorts.clock.wallMs()), actor, reason };
      const done = await decideSurely(outbox, id, decision, note);
      const one = { id, done, audit: done ? note.id : null };
      decided.push(one);
      // At once: of those before a failure it must be known what was done.
      if (!values.json) say(context, decision, one);
    }
    return decided;
  });
  if (values.json) context.print(shownJson({ event: decision.event, operator: actor, reason, effects: all }));
  return all.every(({ done }) => done) ? 0 : 4;
}

function checkIds(ids: readonly string[]): void {
  if (ids.length === 0) throw new UsageError("Say which effect, by its id.");
  const wrong = ids.find((id) => !/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/u.test(id));
  if (wrong !== undefined) throw new UsageError(`${shown(wrong)} is not the id of an effect.`);
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

function say({ print, complain }: CommandContext, { event }: DeadDecision, { id, audit }: Decided): void {
  if (audit === null) {
    complain(`${id} is not dead, or not there: nothing was changed.`);
    return;
  }
  const to = event === "redrive" ? "pending, due now" : "delivered";
  print(`${id}: dead → ${to} (${event}), audit row ${audit}.`);
}
