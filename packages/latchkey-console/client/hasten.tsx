/** What a person can bring forward: the end of a wait, or the forgetting of a finished key. */
import { useState } from "preact/hooks";
import type { Problem, RecordReport, Session } from "../src/wire.ts";
import { act } from "./api.ts";
import { Notice } from "./parts.tsx";
import { announcement } from "./state.ts";

interface Offer {
  readonly event: "retry" | "forget";
  readonly title: string;
  readonly follows: string;
  /** What has to be confirmed first; null: nothing. */
  readonly confirm: string | null;
}

/** Null: there is nothing to bring forward. */
function offerOf({ state, forgetAt, now }: RecordReport): Offer | null {
  const offer = offers[state];
  if (offer?.event === "forget" && forgetAt !== undefined && Date.parse(forgetAt) <= Date.parse(now))
    return null;
  return offer ?? null;
}

const again: Offer = {
  event: "forget",
  title: "Forget",
  follows:
    "The key runs as new at once. The operation has happened: if a client still retries, it happens a second time.",
  confirm: "It did not happen, or has been undone: it may run again",
};

const offers: Readonly<Partial<Record<RecordReport["state"], Offer>>> = {
  retryable: {
    event: "retry",
    title: "Retry now",
    follows: "A worker continues after the last finished step, without waiting for its time.",
    confirm: null,
  },
  unknown: {
    event: "retry",
    title: "Look up again",
    follows:
      "The outcome-reconciler asks the other service again. Nothing runs; an outcome that cannot be found out stays unknown.",
    confirm: null,
  },
  failed: {
    event: "forget",
    title: "Forget",
    follows: "The key runs as new at once, and its stored failure is no longer returned.",
    confirm: null,
  },
  completed: again,
  expired: again,
};

interface HastenProps {
  readonly report: RecordReport;
  readonly who: Session;
  readonly onChanged: () => void;
}

export function Hasten({ report, who, onChanged }: HastenProps) {
  // A refusal stays visible even if there is nothing to bring forward any longer.
  const [problem, setProblem] = useState<Problem | null>(null);
  const offer = offerOf(report);
  return (
    <>
      {problem !== null && <Notice problem={problem} />}
      {offer !== null && (
        <OfferRow
          key={offer.title}
          {...{ report, offer, who }}
          onDone={(refused) => {
            setProblem(refused);
            if (refused === null) announcement.value = `${offer.title}: ${report.key}.`;
            onChanged();
          }}
        />
      )}
    </>
  );
}

interface RowProps {
  readonly report: RecordReport;
  readonly offer: Offer;
  readonly who: Session;
  /** @param refused null: it was carried out */
  readonly onDone: (refused: Problem | null) => void;
}

function OfferRow({ report, offer, who, onDone }: RowProps) {
  // The attempt that was shown when the form was opened. If the record has changed since, the action is refused.
  const [attempt, setAttempt] = useState<number | null>(null);
  return (
    <div class="do-row">
      <div>
        <h3>{offer.title}</h3>
        <p>{offer.follows}</p>
      </div>
      <button
        class="button"
        type="button"
        aria-expanded={attempt !== null}
        onClick={() => setAttempt(attempt === null ? report.attempt : null)}
      >
        {offer.title}…
      </button>
      {attempt !== null && (
        <ReasonForm
          {...{ report, offer, who, attempt }}
          onDone={(refused) => {
            setAttempt(null);
            onDone(refused);
          }}
        />
      )}
    </div>
  );
}

function ReasonForm({ report, offer, who, attempt, onDone }: RowProps & { readonly attempt: number }) {
  const [reason, setReason] = useState("");
  const [isConfirmed, setConfirmed] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    const confirmed = offer.confirm === null ? {} : { mayRunAgain: isConfirmed };
    const answer = await act(offer.event, { recordId: report.id, attempt, reason, ...confirmed });
    setBusy(false);
    onDone(answer.ok ? null : answer.problem);
  };
  const isReady = reason.trim() !== "" && (offer.confirm === null || isConfirmed) && !isBusy;
  return (
    <form class="reason" onSubmit={submit}>
      <div class="field">
        {offer.confirm !== null && (
          <label>
            <input
              type="checkbox"
              checked={isConfirmed}
              onChange={(event) => setConfirmed(event.currentTarget.checked)}
            />{" "}
            {offer.confirm}
          </label>
        )}
        <label for="why-hasten">
          Reason <span class="hint">stored with your name, {who.operator}</span>
        </label>
        <input
          id="why-hasten"
          type="text"
          autocomplete="off"
          maxLength={500}
          value={reason}
          onInput={(event) => setReason(event.currentTarget.value)}
        />
      </div>
      <button class="button primary" type="submit" disabled={!isReady} aria-busy={isBusy}>
        {offer.title}
      </button>
    </form>
  );
}
