/** The possible decisions about an unknown record, and their consequences. */
import type { ComponentChildren } from "preact";
import type { RecordReport } from "../src/wire.ts";
import { StateIcon } from "./parts.tsx";

export type OutcomeName = "call" | "not-executed" | "completed" | "failed";
export type ProofName = "closed-downstream" | "operator" | "downstream-deduplicates";

interface OutcomesProps extends InnerProps {
  readonly setOutcome: (name: OutcomeName) => void;
}

export function Outcomes({ setOutcome, ...inner }: OutcomesProps) {
  const { call, outcome } = inner;
  return (
    <section class="block">
      <h3>What happened?</h3>
      <fieldset>
        <legend class="visually-hidden">Outcome</legend>
        {call !== null && (
          <Choice name="call" title={`The call “${call.name}” happened`} {...{ outcome, setOutcome }}>
            <p>Found under its downstream key: its result is stored, and the rest runs.</p>
            <Result {...inner} />
          </Choice>
        )}
        <Choice name="not-executed" title="It did not happen, and no longer can" {...{ outcome, setOutcome }}>
          <p>
            {call === null
              ? "It may run again. How do you know that it did not happen at all?"
              : "The call is made again. “Not found” is not enough: how do you know that it cannot arrive late?"}
          </p>
          <Proofs {...inner} />
        </Choice>
        <Choice name="completed" title="All of it happened" {...{ outcome, setOutcome }}>
          <p>Retries get the answer that you enter here. Nothing else runs.</p>
          <AnswerField {...inner} name="completed" example={'{"status": 201, "body": {}}'} />
        </Choice>
        <Choice name="failed" title="It will not be done" {...{ outcome, setOutcome }}>
          <p>Retries get the failure that you enter here. Nothing else runs.</p>
          <AnswerField {...inner} name="failed" example={'{"status": 502, "body": {}}'} />
        </Choice>
      </fieldset>
    </section>
  );
}

interface ChoiceProps {
  readonly name: OutcomeName;
  readonly title: string;
  readonly outcome: OutcomeName | null;
  readonly setOutcome: (name: OutcomeName) => void;
  readonly children: ComponentChildren;
}

function Choice({ name, title, outcome, setOutcome, children }: ChoiceProps) {
  const id = `outcome-${name}`;
  return (
    <div class="choice">
      <input
        type="radio"
        id={id}
        name="outcome"
        value={name}
        checked={outcome === name}
        onChange={() => setOutcome(name)}
      />
      <label for={id}>{title}</label>
      {children}
    </div>
  );
}

export interface InnerProps {
  readonly call: RecordReport["steps"][number] | null;
  readonly outcome: OutcomeName | null;
  readonly proof: ProofName | null;
  readonly setProof: (proof: ProofName) => void;
  readonly text: { readonly result: string; readonly completed: string; readonly failed: string };
  readonly setText: (text: InnerProps["text"]) => void;
  readonly deduplication: string | null;
}

function Result({ outcome, text, setText }: InnerProps) {
  if (outcome !== "call") return null;
  return (
    <div class="inner field">
      <span>Its result, as JSON</span>
      <textarea
        class="mono"
        aria-label="Its result, as JSON"
        spellcheck={false}
        placeholder={'{"id": "ch_…"}'}
        value={text.result}
        onInput={(event) => setText({ ...text, result: event.currentTarget.value })}
      />
    </div>
  );
}

function AnswerField({
  outcome,
  text,
  setText,
  name,
  example,
}: InnerProps & { readonly name: "completed" | "failed"; readonly example: string }) {
  if (outcome !== name) return null;
  return (
    <div class="inner field">
      <span>The answer, as JSON</span>
      <textarea
        class="mono"
        aria-label="The answer, as JSON"
        spellcheck={false}
        placeholder={example}
        value={text[name]}
        onInput={(event) => setText({ ...text, [name]: event.currentTarget.value })}
      />
    </div>
  );
}

function Proofs({ call, outcome, proof, setProof, deduplication }: InnerProps) {
  if (outcome !== "not-executed") return null;
  const effect = call?.call?.effect ?? null;
  const remembers = deduplication === "provider";
  const one = (name: ProofName, title: string, detail: string, isOff = false) => (
    <div class="choice" key={name}>
      <input
        type="radio"
        id={`proof-${name}`}
        name="proof"
        value={name}
        disabled={isOff}
        checked={proof === name}
        onChange={() => setProof(name)}
      />
      <label for={`proof-${name}`}>{title}</label>
      <p>{detail}</p>
    </div>
  );
  return (
    <fieldset class="inner">
      <legend class="visually-hidden">Proof</legend>
      {one(
        "closed-downstream",
        "The other service has closed it",
        effect === null
          ? "No call of it is in doubt, so there is nothing to close."
          : "It refuses that key permanently. A new key is used.",
        effect === null,
      )}
      {one(
        "operator",
        "My own knowledge",
        effect === null
          ? "You know that nothing happened."
          : "You know why nothing can arrive late. The same key is used again.",
      )}
      {one(
        "downstream-deduplicates",
        "The other service deduplicates by our keys",
        effect === null
          ? "No call of it is in doubt."
          : remembers
            ? "If it is sent again under the same key, it happens at most once."
            : `Not for ${effect}: its definition ${deduplication === null ? "is not in this process" : `says ${deduplication}`}.`,
        effect === null || !remembers,
      )}
    </fieldset>
  );
}

interface Chosen {
  readonly outcome: OutcomeName | null;
  readonly proof: ProofName | null;
  readonly text: InnerProps["text"];
  readonly call: string | null;
  readonly downstreamKey: string | null;
}

/** The request to send. Null: the form is not complete. */
export function fieldsOf({
  outcome,
  proof,
  text,
  call,
  downstreamKey,
}: Chosen): object | { readonly problem: string } | null {
  switch (outcome) {
    case null:
      return null;
    case "not-executed":
      return proof === null ? null : { outcome, proof, downstreamKey };
    case "call": {
      const result = parsed(text.result, "The result");
      return result !== null && "value" in result
        ? { outcome, call, downstreamKey, result: result.value }
        : result;
    }
    default: {
      const answer = parsed(text[outcome], "The answer");
      return answer !== null && "value" in answer ? { outcome, answer: answer.value } : answer;
    }
  }
}

function parsed(
  text: string,
  what: string,
): { readonly value: unknown } | { readonly problem: string } | null {
  if (text.trim() === "") return null;
  try {
    return { value: JSON.parse(text) };
  } catch {
    return { problem: `${what} is not JSON yet.` };
  }
}

interface AfterProps {
  readonly outcome: OutcomeName | null;
  readonly proof: ProofName | null;
  readonly call: string | null;
  readonly recoveryPoint: string | null;
}

/** The consequences, shown before the action. */
export function After({ outcome, proof, call, recoveryPoint }: AfterProps) {
  const from = recoveryPoint === null ? "continues from the beginning" : `continues after ${recoveryPoint}`;
  const lines = linesAfter(outcome, proof, call, from);
  return (
    <div class="after" aria-live="polite">
      <ol>
        {lines.map(([state, line]) => (
          <li key={line}>
            {state !== null && <StateIcon state={state} />} {line}
          </li>
        ))}
      </ol>
    </div>
  );
}

function linesAfter(
  outcome: OutcomeName | null,
  proof: ProofName | null,
  call: string | null,
  from: string,
): readonly (readonly ["retryable" | "completed" | "failed" | null, string])[] {
  if (outcome === "call") return [["retryable", `Becomes retryable, continues after ${call}`]];
  if (outcome === "completed") return [["completed", "Becomes completed, retries get your answer"]];
  if (outcome === "failed") return [["failed", "Becomes failed, retries get your answer"]];
  if (outcome === null || proof === null) return [];
  const first = ["retryable", `Becomes retryable, ${from}`] as const;
  if (call === null) return [first];
  if (proof === "closed-downstream")
    return [first, [null, `The call “${call}” is made again, under a new key`]];
  const again = [null, `The call “${call}” is made again, under the same key`] as const;
  return proof === "operator"
    ? [first, again, [null, "If the first one still arrives, the other service decides: it may happen twice"]]
    : [first, again];
}
