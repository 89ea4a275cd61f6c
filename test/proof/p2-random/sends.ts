/** The other side as a process of the world reaches it: each send, look-up and close waits to be let go. */
import type { EffectOptions } from "../../../packages/latchkey/src/effects/effect.ts";
import { EffectRefused, NotExecuted } from "../../../packages/latchkey/src/errors.ts";
import type { MemoryTransaction } from "../../../packages/latchkey/src/stores/memory.ts";
import { WorldError } from "./asked.ts";
import { dedupeWindowMs, type EffectKind, effectTimeoutMs } from "./config.ts";
import type { Charge, Send, SendInput } from "./downstream.ts";
import type { Process } from "./process.ts";
import type { WorldFault } from "./scheduler.ts";
import type { Stage } from "./stage.ts";

export type ChargeOptions = EffectOptions<SendInput, Charge, MemoryTransaction>;

export function chargeOptions(stage: Stage, process: Process, kind: EffectKind): ChargeOptions {
  const base = {
    execute: (input: SendInput, { key }: { readonly key: string }) => send(stage, process, kind, key, input),
    retry: { attempts: 2, backoffMs: 10, backoffMaxMs: 10 },
    limits: { timeoutMs: effectTimeoutMs },
    delivery: { attemptsMax: 4, backoffMs: 1_000, backoffMaxMs: 4_000, keepMs: 20_000 },
  };
  const lookup = (_: SendInput, { key }: { readonly key: string }) =>
    ask(stage, process, "look-up", () => {
      const found = stage.downstream.find(key);
      return found === null ? null : { found };
    });
  const close = (_: SendInput, { key }: { readonly key: string }) =>
    ask(stage, process, "close", () => stage.downstream.close(key));
  switch (kind) {
    case "provider":
      return { ...base, deduplication: "provider", dedupeWindowMs };
    case "lookup":
      return { ...base, deduplication: "lookup", lookup };
    case "close":
      return { ...base, deduplication: "lookup", lookup, close };
    case "reopen":
      return { ...base, deduplication: "lookup", lookup, close, reopen: true };
    case "none":
      return { ...base, deduplication: "none" };
    default:
      return kind satisfies never;
  }
}

/** Asks the other side something; what it says is true at the moment it is let go. */
export function ask<T>(stage: Stage, process: Process, what: string, act: () => T): Promise<T> {
  if (stage.calm || process.calm) return Promise.resolve(act());
  return new Promise((resolve, reject) => {
    const go = (fault: WorldFault) => {
      if (fault === "proceed") resolve(act());
      else if (fault === "request_lost") reject(new WorldError("socket hang up"));
      else stage.crash(process);
    };
    stage.scheduler.add({ kind: "ask", what, process, tenant: null, faults: stage.faults.ask, go });
  });
}

function send(
  stage: Stage,
  process: Process,
  kind: EffectKind,
  key: string,
  input: SendInput,
): Promise<Charge> {
  const { downstream } = stage;
  const sent: Send = { kind, key, input, begunAtMs: stage.clock.nowMs };
  downstream.begin(sent);
  checkSender(stage, process, sent);
  const tenant = stage.lives.all.get(input.life)?.record.tenant ?? null;
  if (stage.calm || process.calm) return arrived(stage, sent);
  return new Promise((resolve, reject) => {
    const lost = () => reject(new WorldError("socket hang up"));
    const go = (fault: WorldFault) => {
      switch (fault) {
        case "proceed":
          return void arrived(stage, sent).then(resolve, reject);
        case "reply_lost":
        case "crash_after":
          arrived(stage, sent).catch(() => {});
          return fault === "reply_lost" ? lost() : stage.crash(process);
        case "late":
          void stage
            .onItsWay(null, `send ${input.place}`, tenant)
            .then(() => arrived(stage, sent).catch(() => {}));
          return lost();
        case "not_executed":
          return reject(new NotExecuted({ message: "refused to connect" }));
        case "refused":
          if ("happened" in downstream.close(key)) return void arrived(stage, sent).then(resolve, reject);
          return reject(new EffectRefused({ message: "declined", detail: { declined: true } }));
        case "crash_before":
          return stage.crash(process);
        default:
          return lost();
      }
    };
    stage.scheduler.add({ kind: "send", what: input.place, process, tenant, faults: stage.faults.send, go });
  });
}

async function arrived(stage: Stage, sent: Send): Promise<Charge> {
  return stage.downstream.arrive(sent);
}

/** A send begins only while its attempt, or its claim, holds by the store's clock. */
function checkSender({ lives, effects, clock, report }: Stage, process: Process, { key, input }: Send): void {
  const life = lives.all.get(input.life);
  if (life === undefined) {
    report.fail("I8", `${input.place} is sent for a life that was never begun`);
    return;
  }
  if (input.place === "charged") {
    const { record } = life;
    const holds =
      record.state === "in_progress" && clock.nowMs < record.leaseEndsAt && life.owner === process;
    const step = life.steps.find(({ name }) => name === "charged");
    const intended = step?.kind === "call" && step.state === "started" && step.downstreamKey === key;
    if (!holds) report.fail("I4", `${process.name} sends for ${life.id} and does not own it`);
    if (!intended) report.fail("I7", `${process.name} sends for ${life.id} what is not written as begun`);
    return;
  }
  const rows = [...effects.rows.values()].filter(({ effect }) => effect.downstreamKey === key);
  const claimed = rows.some(
    ({ effect, leaseEndsAt }) => effect.state === "started" && clock.nowMs < (leaseEndsAt ?? 0),
  );
  if (!claimed) report.fail("I9", `${process.name} delivers ${input.place} without a claim that holds`);
}
