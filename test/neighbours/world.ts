/** One app of a case: with Latchkey or without, and what its handler is to answer. */
import type { Operation } from "../../packages/latchkey/src/operations/operation.ts";
import type { HttpService } from "../support/http-service.ts";

export type Execution = "transaction" | "lease";

/** What the handler answers; each front end writes it as its users do. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: AnswerBody;
}

export type AnswerBody =
  | { readonly kind: "json"; readonly value: object }
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "stream"; readonly chunks: readonly string[] }
  | { readonly kind: "none" };

export const answerKinds = ["json", "text", "stream", "none"] as const;
export type AnswerKind = (typeof answerKinds)[number];

export interface World {
  /** Null: the same app without Latchkey. */
  readonly service: HttpService | null;
  readonly execution: Execution;
  readonly answerKind: AnswerKind;
  /** For loggers: the status of each answer. */
  readonly logged: string[];
  /** Begins a run of the handler, waits while runs are held, and says what to answer to what the handler sees. */
  run(seen: unknown): Promise<Answer>;
  runs(): number;
  /** Holds the runs that begin from now on; what is returned lets them go on. */
  hold(): () => void;
}

export function makeWorld(parts: Pick<World, "service" | "execution" | "answerKind">): World {
  let runs = 0;
  let gate: Promise<void> | undefined;
  return {
    ...parts,
    logged: [],
    async run(seen) {
      runs += 1;
      const order = runs;
      await gate;
      return makeAnswer(parts.answerKind, order, seen);
    },
    runs: () => runs,
    hold() {
      const { promise, resolve } = Promise.withResolvers<void>();
      gate = promise;
      return () => {
        gate = undefined;
        resolve();
      };
    },
  };
}

/** Long enough for every compressor's threshold. */
const padding = "This order has been accepted. ".repeat(80);

function makeAnswer(kind: AnswerKind, order: number, seen: unknown): Answer {
  // The second one is on no list of what is stored: replays do not have it.
  const headers = { Location: `/orders/${order}`, "X-Order": String(order) };
  const text = JSON.stringify({ order, seen, padding });
  if (kind === "json") return { status: 201, headers, body: { kind, value: { order, seen, padding } } };
  if (kind === "text") return { status: 200, headers, body: { kind, text } };
  if (kind === "stream") {
    return { status: 201, headers, body: { kind, chunks: [text.slice(0, 9), text.slice(9)] } };
  }
  return { status: 204, headers, body: { kind } };
}

export function operationOf({ execution }: World, service: HttpService): Operation {
  return execution === "lease" ? service.lease() : service.operation();
}
