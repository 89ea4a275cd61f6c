/**
 * A dialog that acts on all entries that match: it asks for the action, checks it, and asks for the reason and the number of
 * entries.
 */
import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import type { BulkAction, Census, JobView, Problem, QueueQuery, Session } from "../src/wire.ts";
import { act, readDepths } from "./api.ts";
import { countText } from "./format.ts";
import { Notice } from "./parts.tsx";

export interface BulkChoice {
  readonly id: string;
  readonly label: string;
  readonly action: BulkAction;
}

interface BulkProps {
  readonly title: string;
  readonly button: string;
  readonly choices: readonly BulkChoice[];
  readonly filter: QueueQuery;
  readonly who: Session;
  readonly children?: ComponentChildren;
}

/** The dialog's content exists only while the dialog is open, and starts fresh each time. */
export function Bulk(props: BulkProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [isOpen, setOpen] = useState(false);
  const open = () => {
    setOpen(true);
    dialog.current?.showModal();
  };
  return (
    <>
      <button class="button" type="button" onClick={open}>
        {props.button}
      </button>
      <dialog ref={dialog} aria-label={props.title} onClose={() => setOpen(false)}>
        {isOpen && <BulkForm {...props} onClose={() => dialog.current?.close()} />}
      </dialog>
    </>
  );
}

function useBulk({ choices, filter, onClose }: BulkProps & { readonly onClose: () => void }) {
  const [choice, setChoice] = useState(choices.length === 1 ? (choices[0]?.id ?? "") : "");
  const [reason, setReason] = useState("");
  const [typed, setTyped] = useState("");
  const [checked, setChecked] = useState<JobView | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const chosen = choices.find(({ id }) => id === choice) ?? null;
  const check = async () => {
    if (chosen === null) return;
    const answer = await act<JobView>("jobs", { ...filter, ...chosen.action, reason });
    setChecked(answer.ok ? answer.value : null);
    setProblem(answer.ok ? null : answer.problem);
  };
  const run = async () => {
    if (checked === null) return;
    const count = Number(typed.replaceAll(/\D/gu, ""));
    const answer = await act<JobView>(`jobs/${checked.id}/run`, { count });
    if (!answer.ok) return setProblem(answer.problem);
    onClose();
    await readDepths();
  };
  /** A change of the fields makes an earlier check invalid. */
  const changed = <T,>(set: (value: T) => void) => {
    return (value: T) => {
      set(value);
      setChecked(null);
    };
  };
  return {
    choice,
    setChoice: changed(setChoice),
    reason,
    setReason: changed(setReason),
    typed,
    setTyped,
    checked,
    problem,
    check,
    run,
    mayCheck: chosen !== null && reason.trim() !== "",
    mayRun: checked !== null && checked.total > 0 && typed.replaceAll(/\D/gu, "") === String(checked.total),
  };
}

function BulkForm(props: BulkProps & { readonly onClose: () => void }) {
  const { title, button, choices, who, children, onClose } = props;
  const bulk = useBulk(props);
  const { checked, problem } = bulk;
  return (
    <>
      <header>
        <h2>{title}</h2>
      </header>
      <div>
        <p class="quiet">{children} Entries that appear later are not affected.</p>
        {choices.length > 1 && (
          <div class="field">
            <label>
              What happened to them?
              <select value={bulk.choice} onChange={(event) => bulk.setChoice(event.currentTarget.value)}>
                <option value="">Choose</option>
                {choices.map(({ id, label }) => (
                  <option key={id} value={id}>
                    {label}
                  </option>
                ))}
              </select>
            </label>
          </div>
        )}
        <div class="field">
          <label>
            Reason <span class="hint">stored with each of them, with your name, {who.operator}</span>
            <input
              type="text"
              autocomplete="off"
              maxLength={500}
              value={bulk.reason}
              onInput={(event) => bulk.setReason(event.currentTarget.value)}
            />
          </label>
        </div>
        {problem !== null && <Notice problem={problem} class="after-head" />}
        {checked !== null && <Checked checked={checked} typed={bulk.typed} setTyped={bulk.setTyped} />}
      </div>
      <footer>
        <button class="button" type="button" onClick={onClose}>
          Cancel
        </button>
        {checked === null ? (
          <button class="button primary" type="button" disabled={!bulk.mayCheck} onClick={bulk.check}>
            Check first
          </button>
        ) : (
          <button class="button primary" type="button" disabled={!bulk.mayRun} onClick={bulk.run}>
            {button.replace("…", "")}
          </button>
        )}
      </footer>
    </>
  );
}

interface CheckedProps {
  readonly checked: JobView;
  readonly typed: string;
  readonly setTyped: (text: string) => void;
}

function Checked({ checked, typed, setTyped }: CheckedProps) {
  return (
    <>
      <div class="dry" role="status">
        <b>{countText(checked.total)}</b>
        <span>
          match now and would be decided
          {checked.more ? "; more match, and are not included" : ""}
        </span>
      </div>
      <div class="field">
        <label>
          Type {checked.total} to continue
          <input
            class="narrow"
            type="text"
            inputMode="numeric"
            autocomplete="off"
            value={typed}
            onInput={(event) => setTyped(event.currentTarget.value)}
          />
        </label>
      </div>
    </>
  );
}

const settleChoices: readonly BulkChoice[] = [
  {
    id: "closed",
    label: "Did not happen: the other service has closed each of them",
    action: { kind: "settle", outcome: "not-executed", proof: "closed-downstream" },
  },
  {
    id: "word",
    label: "Did not happen: my own knowledge",
    action: { kind: "settle", outcome: "not-executed", proof: "operator" },
  },
  {
    id: "failed",
    label: "They will not be done: retries get 502",
    action: { kind: "settle", outcome: "failed", status: 502 },
  },
];

const retryChoices: readonly BulkChoice[] = [{ id: "retry", label: "Retry", action: { kind: "retry" } }];

interface BulkRecordsProps {
  readonly census: Census;
  readonly filter: QueueQuery;
  readonly who: Session;
}

/** For retryable records. */
export function BulkRetry({ census, filter, who }: BulkRecordsProps) {
  const amount = countText(census.count, census.more);
  return (
    <div class="actions after-head">
      <span class="quiet">{amount} match.</span>
      <Bulk
        title={`Retry ${amount} now`}
        button={`Retry ${amount}…`}
        choices={retryChoices}
        filter={filter}
        who={who}
      >
        Workers continue all records that match the filters of the page behind, each after its last finished
        step, without waiting for its time. Records that only their own clients can continue are refused.
      </Bulk>
    </div>
  );
}

/** For unknown records. */
export function BulkSettle({ census, filter, who }: BulkRecordsProps) {
  const amount = countText(census.count, census.more);
  return (
    <div class="actions after-head">
      <span class="quiet">{amount} match.</span>
      <Bulk
        title={`Look ${amount} up again`}
        button={`Look ${amount} up again…`}
        choices={retryChoices}
        filter={filter}
        who={who}
      >
        The outcome-reconciler asks the other service again about all records that match the filters of the
        page behind. Nothing runs; outcomes that cannot be found out stay unknown.
      </Bulk>
      <Bulk
        title={`Settle ${amount} at once`}
        button={`Settle ${amount}…`}
        choices={settleChoices}
        filter={filter}
        who={who}
      >
        All records that match the filters of the page behind. “It happened” needs each record's own result:
        settle those one by one.
      </Bulk>
    </div>
  );
}
