/** The known facts about one unknown record, and the possible decisions about it. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { Inspected, Problem, RecordReport, Session } from "../src/wire.ts";
import { act } from "./api.ts";
import { TenantLink } from "./audit.tsx";
import { ageText } from "./format.ts";
import { Known } from "./known.tsx";
import { Empty, Icon, Notice, StateWord } from "./parts.tsx";
import { After, fieldsOf, type OutcomeName, Outcomes, type ProofName } from "./settle-fields.tsx";
import { addressOf, ageOf, announcement } from "./state.ts";
import { useAnswer } from "./use-answer.ts";

interface PanelProps {
  readonly id: string;
  readonly who: Session;
  readonly onClose: () => void;
  readonly onChanged: () => void;
}

export function SettlePanel({ id, who, onClose, onChanged }: PanelProps) {
  const found = useAnswer<Inspected>("inspect", { name: id });
  const heading = useRef<HTMLHeadingElement>(null);
  const isThere = found.value !== null;
  useEffect(() => {
    if (isThere) heading.current?.focus();
  }, [isThere]);
  const changed = () => {
    found.reload();
    onChanged();
  };
  const report = found.value?.kind === "record" ? found.value.report : null;
  return (
    <aside class="panel open arrives" aria-labelledby="h-panel">
      <header>
        <div class="top">
          {report === null ? <span /> : <StateNow report={report} />}
          <button class="icon-button" type="button" aria-label="Close" data-close-panel onClick={onClose}>
            <Icon name="close" />
          </button>
        </div>
        <h2 id="h-panel" class="mono" tabIndex={-1} ref={heading}>
          {report?.key ?? "…"}
        </h2>
        {report !== null && (
          <p class="quiet small">
            <TenantLink tenant={report.tenant} /> · <span class="mono">{report.operation}</span>
          </p>
        )}
      </header>
      {found.problem !== null && report === null && (
        <div class="body">
          <Notice problem={found.problem} />
        </div>
      )}
      {found.value !== null && found.value.kind !== "record" && (
        <div class="body">
          <Empty title="The record no longer exists">
            <p>It was released because nothing happened, it was forgotten, or its key has a new life.</p>
          </Empty>
        </div>
      )}
      {found.value?.kind === "record" && (
        <SettleForm
          report={found.value.report}
          deduplication={found.value.deduplication}
          who={who}
          onChanged={changed}
        />
      )}
    </aside>
  );
}

function StateNow({ report }: { readonly report: RecordReport }) {
  return (
    <StateWord state={report.state}>
      {report.state === "unknown"
        ? `unknown, ${ageText(ageOf(report.createdAt))} old`
        : report.state.replace("_", " ")}
    </StateWord>
  );
}

interface FormProps {
  readonly report: RecordReport;
  readonly deduplication: string | null;
  readonly who: Session;
  readonly onChanged: () => void;
}

const verbs: Readonly<Record<OutcomeName, string>> = {
  call: "Settle: it happened",
  "not-executed": "Settle: did not happen",
  completed: "Settle: all happened",
  failed: "Settle: will not be done",
};

/** Nothing is preselected: the most likely choice is not always the true one. */
function useSettling(report: RecordReport, onChanged: () => void) {
  const [outcome, setOutcome] = useState<OutcomeName | null>(null);
  const [proof, setProof] = useState<ProofName | null>(null);
  const [text, setText] = useState({ result: "", completed: "", failed: "" });
  const [reason, setReason] = useState("");
  const [refused, setRefused] = useState<Problem | null>(null);
  const [isBusy, setBusy] = useState(false);
  // If the record changes while the person looks at it, it must not be settled in its new state.
  const [attempt] = useState(report.attempt);
  const call = report.steps.find((step) => step.kind === "call" && step.state === "started") ?? null;
  const downstreamKey = call?.call?.downstreamKey ?? null;
  const fields = fieldsOf({ outcome, proof, text, downstreamKey, call: call?.name ?? null });
  const submit = async (event: Event) => {
    event.preventDefault();
    if (fields === null || "problem" in fields) return;
    setBusy(true);
    const answer = await act("settle", { recordId: report.id, attempt, reason, ...fields });
    setBusy(false);
    setRefused(answer.ok ? null : answer.problem);
    if (answer.ok) announcement.value = `Settled ${report.key}.`;
    onChanged();
  };
  const chosen = { call, outcome, proof, setProof, text, setText };
  return { chosen, setOutcome, reason, setReason, refused, isBusy, fields, submit };
}

function SettleForm({ report, deduplication, who, onChanged }: FormProps) {
  const settling = useSettling(report, onChanged);
  const { chosen, setOutcome, refused, submit } = settling;
  const notice = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (refused !== null) notice.current?.focus();
  }, [refused]);
  const isUnknown = report.state === "unknown";
  return (
    <form onSubmit={submit}>
      <div class="body">
        {refused !== null && (
          <div class="block" ref={notice} tabIndex={-1}>
            <Notice problem={refused} icon={report.state} />
          </div>
        )}
        <Known report={report} />
        {isUnknown && who.mayAct && (
          <Outcomes {...chosen} deduplication={deduplication} setOutcome={setOutcome} />
        )}
        {isUnknown && !who.mayAct && (
          <Notice
            class="block flush"
            icon="lock"
            problem={{
              title: "You can view records, but not settle them.",
              detail: `Signed in as ${who.operator}.`,
            }}
          />
        )}
        {!isUnknown && (
          <section class="block">
            <h3>The state now</h3>
            {report.next.map((sentence) => (
              <p key={sentence}>{sentence}</p>
            ))}
          </section>
        )}
      </div>
      <footer>
        {isUnknown && who.mayAct && (
          <Reason who={who} settling={settling} recoveryPoint={report.recoveryPoint} />
        )}
        <div class="actions">
          {isUnknown && who.mayAct && <Submit settling={settling} />}
          <a class="end small nowrap" href={addressOf(`record/${report.id}`)}>
            Whole record
          </a>
        </div>
      </footer>
    </form>
  );
}

type Settling = ReturnType<typeof useSettling>;

interface ReasonProps {
  readonly who: Session;
  readonly settling: Settling;
  readonly recoveryPoint: string | null;
}

function Reason({ who, settling, recoveryPoint }: ReasonProps) {
  const { chosen, reason, setReason, fields } = settling;
  const { outcome, proof, call } = chosen;
  return (
    <>
      <div class="field">
        <label for="why">
          Reason <span class="hint">stored with your name, {who.operator}, in the audit log</span>
        </label>
        <input
          id="why"
          name="reason"
          type="text"
          autocomplete="off"
          maxLength={500}
          value={reason}
          onInput={(event) => setReason(event.currentTarget.value)}
        />
      </div>
      <After {...{ outcome, proof, call: call?.name ?? null, recoveryPoint }} />
      {fields !== null && "problem" in fields && <p class="wrong">{fields.problem}</p>}
    </>
  );
}

/** While it is disabled, a text next to it says what is missing. */
function Submit({ settling }: { readonly settling: Settling }) {
  const { chosen, reason, fields, isBusy } = settling;
  const { outcome } = chosen;
  const isComplete = fields !== null && !("problem" in fields);
  const isOff = !isComplete || reason.trim() === "" || isBusy;
  return (
    <>
      <button class="button primary" type="submit" disabled={isOff} aria-busy={isBusy}>
        {isBusy ? "Settling…" : outcome === null ? "Settle" : verbs[outcome]}
      </button>
      {isOff && !isBusy && (
        <span class="hint">{isComplete ? "Give the reason in a few words." : "Choose what happened."}</span>
      )}
    </>
  );
}
