/** One dead letter, and the possible decisions about it. */
import { useState } from "preact/hooks";
import type { Choice, Problem, Session } from "../src/wire.ts";
import { act } from "./api.ts";
import { Notice } from "./parts.tsx";
import { announcement } from "./state.ts";

interface DecideProps {
  readonly name: string;
  readonly death: string;
  readonly choices: readonly Choice[];
  readonly who: Session;
  readonly onChanged: () => void;
}

const titles = { kept: "Redrive", cleared: "Redrive as never sent", discard: "Discard" } as const;

export function DecideDead({ name, death, choices, who, onChanged }: DecideProps) {
  const [chosen, setChosen] = useState<Choice | null>(null);
  const [reason, setReason] = useState("");
  const [problem, setProblem] = useState<Problem | null>(null);
  const decide = async (event: Event) => {
    event.preventDefault();
    if (chosen === null || chosen.action.kind === "settle") return;
    const { action } = chosen;
    const fields =
      action.kind === "discard" ? { decision: "discard" } : { decision: "redrive", doubt: action.doubt };
    const answer = await act("decide", { death, reason, ...fields });
    setProblem(answer.ok ? null : answer.problem);
    setChosen(null);
    if (answer.ok) announcement.value = `${titleOf(chosen)}: ${name}.`;
    onChanged();
  };
  return (
    <>
      {problem !== null && (
        <div>
          <Notice problem={problem} />
        </div>
      )}
      {choices.map((choice) => (
        <div class="do-row" key={titleOf(choice)}>
          <div>
            <h3>
              {titleOf(choice)} <code>{name}</code>
            </h3>
            <p>{choice.when}.</p>
          </div>
          {who.mayAct && (
            <button
              class="button"
              type="button"
              aria-expanded={chosen === choice}
              onClick={() => setChosen(chosen === choice ? null : choice)}
            >
              {titleOf(choice)}…
            </button>
          )}
          {chosen === choice && (
            <form class="reason" onSubmit={decide}>
              <div class="field">
                <label for={`why-${death}`}>
                  Reason <span class="hint">stored with your name, {who.operator}</span>
                </label>
                <input
                  id={`why-${death}`}
                  type="text"
                  autocomplete="off"
                  maxLength={500}
                  value={reason}
                  onInput={(event) => setReason(event.currentTarget.value)}
                />
              </div>
              <button class="button primary" type="submit" disabled={reason.trim() === ""}>
                {titleOf(choice)}
              </button>
            </form>
          )}
        </div>
      ))}
    </>
  );
}

function titleOf({ action }: Choice): string {
  if (action.kind === "redrive") return titles[action.doubt];
  return titles.discard;
}
