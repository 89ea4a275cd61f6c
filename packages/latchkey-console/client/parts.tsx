import type { ComponentChildren } from "preact";
import type { Problem } from "../src/wire.ts";
import { shortKey } from "./format.ts";
import { announcement } from "./state.ts";

export type StateName =
  | "pending"
  | "in_progress"
  | "completed"
  | "failed"
  | "retryable"
  | "unknown"
  | "expired"
  | "dead";

/** Icons of states are always next to the state's name, so they are hidden from screen readers. */
export function StateIcon({ state, none = false }: { readonly state: StateName; readonly none?: boolean }) {
  const name = state.replace("_", "-");
  return (
    <svg class={`st is-${name}${none ? " none" : ""}`} aria-hidden="true">
      <use href={`#s-${name}`} />
    </svg>
  );
}

export function StateWord({
  state,
  children,
}: {
  readonly state: StateName;
  readonly children?: ComponentChildren;
}) {
  return (
    <span class={`state is-${state.replace("_", "-")}`}>
      <StateIcon state={state} />
      {children ?? wordOf(state)}
    </span>
  );
}

export function wordOf(state: StateName): string {
  return state === "dead" ? "dead letter" : state.replace("_", " ");
}

export function Icon({ name, size = 16 }: { readonly name: string; readonly size?: number }) {
  return (
    <svg viewBox={`0 0 ${size} ${size}`} aria-hidden="true">
      <use href={`#i-${name}`} />
    </svg>
  );
}

export function Copy({ text }: { readonly text: string }) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      announcement.value = `Copied ${text}`;
    } catch {
      announcement.value = "The browser did not allow copying.";
    }
  };
  return (
    <button class="copy" type="button" title={`Copy ${text}`} onClick={copy}>
      <span>{shortKey(text)}</span>
      <Icon name="copy" size={12} />
    </button>
  );
}

interface NoticeProps {
  readonly problem: Problem;
  readonly icon?: StateName | "stop" | "lock";
  readonly children?: ComponentChildren;
  readonly class?: string;
}

/** Sentences that say what did not happen, why, and what the state is now. Takes the focus when it appears. */
export function Notice({ problem, icon = "stop", children, class: more = "" }: NoticeProps) {
  return (
    <div class={`notice ${more}`} role="alert">
      {icon === "stop" || icon === "lock" ? (
        <svg class="st" viewBox="0 0 16 16" aria-hidden="true">
          <use href={`#i-${icon}`} />
        </svg>
      ) : (
        <StateIcon state={icon} />
      )}
      <div>
        <p>
          <b>{problem.title}</b>
        </p>
        <p class="quiet">{problem.detail}</p>
      </div>
      {children}
    </div>
  );
}

interface EmptyProps {
  readonly title: string;
  readonly icon?: StateName;
  readonly children?: ComponentChildren;
}

export function Empty({ title, icon, children }: EmptyProps) {
  return (
    <div class="empty">
      {icon !== undefined && <StateIcon state={icon} />}
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function Loading({ label }: { readonly label: string }) {
  return (
    <div class="hollow section" role="status" aria-label={label}>
      <table class="table">
        <tbody>
          {[0, 1, 2, 3].map((row) => (
            <tr key={row}>
              <td>
                <i />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const mask = "••••••••";

/** JSON in which masked values are marked. */
export function Json({ value, isInline = false }: { readonly value: unknown; readonly isInline?: boolean }) {
  const parts = (JSON.stringify(value, null, isInline ? 0 : 2) ?? "null").split(JSON.stringify(mask));
  return (
    <>
      {parts.map((part, index) => (
        <span key={index}>
          {index > 0 && <span class="masked">{mask}</span>}
          {part}
        </span>
      ))}
    </>
  );
}
