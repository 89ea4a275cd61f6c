/** An operator's decisions about dead effects and messages: `latchkey redrive` and `latchkey discard`. */
import type { OperatorProof } from "../execution/settle.ts";
import type { Republish } from "../messages/dead-messages.ts";
import { type DeadName, laterDeath, parseDeadName } from "../operator/dead-names.ts";
import {
  checkDead,
  type DeadLetters,
  type Decided as DecidedOne,
  decideDead,
  discardedKeepMs,
} from "../operator/decide-dead.ts";
import { effectSource, messageSource, type QueueFilter, walkMatching } from "../operator/queues.ts";
import type { DeadVerdict } from "../stores/outbox.ts";
import { type BulkValues, bulkOptions, checkAll, filterOf, runBulk, type Target } from "./bulk.ts";
import {
  type Command,
  type CommandContext,
  CommandError,
  type ExitCode,
  refusal,
  UsageError,
} from "./command.ts";
import { consoleHelp } from "./console-client.ts";
import { databaseHelp, databaseOptions, parse, signed } from "./options.ts";
import { shown, shownJson } from "./text.ts";
import { type OpenService, type ServiceValues, serviceOptions, withService } from "./with-store.ts";

const commonHelp = `\
  --operator <name>     who decides
  --reason <text>       why
  --dry-run             only print what would be done
  --all                 every dead effect, or with --messages message, that matches --tenant, --operation, --effect,
                        --older-than (90s, 15m, 2h, 3d) and --error-code, with --yes; exit code 1 when one was refused
  --config <file>       use the store of the service's config
${databaseHelp}
${consoleHelp}
  --json                print the result as JSON

\`latchkey list --dead\` prints ids of effects, with --messages of messages. An effect's id has the number of the claim under
which it died, as in <id>@3: if it has died again since, it is refused. An id without a number means the first death. Several
are decided one after the other. Each decision gets an audit row with your name and reason.

Exit codes: 0 done, 1 failed, 2 called wrongly, 4 one of them is not dead, does not exist, has died again, or is a message that
needs a config to be published again: that one was not changed.`;

export const redrive: Command = {
  summary: "deliver a dead effect, or run a dead message, after all",
  help: `Usage: latchkey redrive <id>... --operator <name> --reason <text> [options]

Puts dead effects back: they are due at once, under the same downstream key, and their tries count from the start. An earlier
send in doubt stays in doubt, and the effect's definition decides what that means.

Publishes dead messages again with the config's \`republish\`, and then removes them: an inbox runs each as new, unless it has
run. A message that could not be published stays dead; repeat the command for it.

  --never-happened      no earlier send has happened or ever will: you have looked it up at the other service. If one still
                        arrives, it happens twice
${commonHelp}`,
  run(context) {
    const { values, positionals } = parse({
      args: [...context.args],
      allowPositionals: true,
      options: { ...decideOptions, "never-happened": { type: "boolean" } },
    });
    checkAll(values, positionals, ["dry-run"]);
    const doubt = values["never-happened"] ? "cleared" : "kept";
    if (values.all) return decideMatching(context, values, { event: "redrive", doubt });
    return decideAll(context, values, positionals, { event: "redrive", doubt });
  },
};

export const discard: Command = {
  summary: "give up a dead effect or message for good: it happened, or never must",
  help: `Usage: latchkey discard <id>... --operator <name> --reason <text> [options]

Counts dead effects as delivered, without a send and without \`onDelivered\`: they happened, or never must. Effects that waited
behind one in its aggregate continue. Discarded effects stay visible for 24 hours.

Removes dead messages with their payloads.

${commonHelp}`,
  run(context) {
    const { values, positionals } = parse({
      args: [...context.args],
      allowPositionals: true,
      options: decideOptions,
    });
    checkAll(values, positionals, ["dry-run"]);
    const verdict = { event: "discard", keepMs: discardedKeepMs } as const;
    if (values.all) return decideMatching(context, values, verdict);
    return decideAll(context, values, positionals, verdict);
  },
};

const decideOptions = {
  ...databaseOptions,
  ...serviceOptions,
  ...bulkOptions,
  effect: { type: "string" },
  messages: { type: "boolean" },
  operator: { type: "string" },
  reason: { type: "string" },
} as const;

interface DecideValues extends ServiceValues, BulkValues {
  readonly messages?: boolean | undefined;
  readonly operator?: string | undefined;
  readonly reason?: string | undefined;
}

interface Decided extends DecidedOne {
  /** The id as given. */
  readonly id: string;
  /** Whether it was decided, or in a dry run would be. */
  readonly done: boolean;
}

interface ReportedDecision extends Decided {
  readonly dryRun: boolean;
  /** The current death of this id; null if it is not dead, or was decided. */
  readonly now: string | null;
}

/** Decides about all dead effects, or all dead messages, that match. */
async function decideMatching(
  context: CommandContext,
  values: DecideValues,
  verdict: DeadVerdict,
): Promise<ExitCode> {
  if (values.messages && values.effect !== undefined) {
    throw new UsageError("--effect and --messages exclude each other.");
  }
  const by = { operator: signed("operator", values.operator), reason: signed("reason", values.reason) };
  return withService(context, values, async (service) => {
    const filter = await filterOf(service.runtime.store, values);
    return runBulk(
      context,
      {
        verb: verdict.event,
        targets: deadTargets(service, filter, values.messages ?? false),
        async act({ id }, dryRun) {
          const name = parseDeadName(id);
          if (name === null || dryRun) return "";
          const { audit } = await decideDead(
            { ...service, republish: republishing(service, name) },
            name,
            verdict,
            by,
          );
          if (audit !== null) return audit;
          throw refusal("It is no longer dead, has died again, or needs a --config with `republish`.");
        },
      },
      values,
    );
  });
}

async function* deadTargets(
  { runtime, messages }: OpenService,
  filter: QueueFilter,
  ofMessages: boolean,
): AsyncGenerator<Target> {
  if (ofMessages) {
    for await (const { id, tenant, operation } of walkMatching(messageSource(messages, filter), filter)) {
      yield { id, tenant, operation };
    }
    return;
  }
  for await (const { death, tenant, operation } of walkMatching(
    effectSource(runtime.store, filter),
    filter,
  )) {
    yield { id: death, tenant, operation };
  }
}

async function decideAll(
  context: CommandContext,
  values: DecideValues,
  given: readonly string[],
  verdict: DeadVerdict,
): Promise<ExitCode> {
  const names = namesOf(given);
  const by = { operator: signed("operator", values.operator), reason: signed("reason", values.reason) };
  const decided: Decided[] = [];
  const dryRun = values["dry-run"] ?? false;
  const print = () => {
    if (values.json) context.print(shownJson({ event: verdict.event, ...by, dryRun, decided }));
  };
  try {
    await withService(context, values, async (service) => {
      for (const [text, name] of names) {
        const letters = { ...service, republish: republishing(service, name) };
        const one = {
          id: text,
          ...(await (dryRun ? look(letters, name, verdict) : decide(letters, name, verdict, by))),
        };
        decided.push(one);
        if (values.json) continue;
        const now = one.done ? null : await laterDeath(service.runtime.store.outbox, name);
        say(context, verdict, { ...one, now, dryRun });
      }
    });
  } catch (error) {
    // The output must include the decisions made before a failure.
    if (decided.length > 0) print();
    throw error;
  }
  print();
  return decided.every(({ done }) => done) ? 0 : 4;
}

async function decide(letters: DeadLetters, name: DeadName, verdict: DeadVerdict, by: OperatorProof) {
  const decided = await decideDead(letters, name, verdict, by);
  return { ...decided, done: decided.audit !== null };
}

async function look(letters: DeadLetters, name: DeadName, verdict: DeadVerdict) {
  const { kind, may } = await checkDead(letters, name, verdict);
  return { kind, audit: null, done: may };
}

function republishing({ republish }: OpenService, { id }: DeadName): Republish | null {
  if (republish === null) return null;
  return async (message) => {
    try {
      await republish(message);
    } catch (cause) {
      const problem = cause instanceof Error ? cause.message : String(cause);
      throw new CommandError(shown(`${id} could not be published again and stays dead: ${problem}`), {
        cause,
      });
    }
  };
}

function namesOf(given: readonly string[]): ReadonlyMap<string, DeadName> {
  if (given.length === 0) throw new UsageError("Name an effect or message by its id.");
  const names = given.map((text) => {
    const name = parseDeadName(text);
    if (name === null) throw new UsageError(`${shown(text)} is not the id of an effect or a message.`);
    return [text, name] as const;
  });
  return new Map(names);
}

function say(
  { print, complain }: CommandContext,
  { event }: DeadVerdict,
  { id, kind, audit, now, done, dryRun }: ReportedDecision,
): void {
  if (done) {
    const end = `${become(event, kind)} (${event})`;
    print(
      dryRun ? `${id}: would be ${end}. Nothing was changed.` : `${id}: dead → ${end}, audit row ${audit}.`,
    );
  } else if (kind === "message") {
    complain(
      `${id} is a message: publishing it again needs a --config with \`republish\`. Nothing was changed.`,
    );
  } else {
    complain(
      now === null
        ? `${shown(id)} is not a dead effect or message. Nothing was changed.`
        : `${shown(id)} has died again: it is now ${now}. Nothing was changed.`,
    );
  }
}

function become(event: DeadVerdict["event"], kind: Decided["kind"]): string {
  if (kind === "message") return event === "redrive" ? "published again" : "removed";
  return event === "redrive" ? "pending, due now" : "delivered";
}
