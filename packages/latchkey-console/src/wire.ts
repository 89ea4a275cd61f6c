/** The JSON that the page and the handler exchange. */
import type {
  AuditLogView,
  Census,
  Choice,
  DeadEffectView,
  MessageView,
  Operator,
  Page,
  RecordReport,
  RecordView,
  StepView,
} from "latchkey/operator";

export type {
  AuditLogView,
  Census,
  Choice,
  DeadEffectView,
  MessageView,
  Page,
  RecordReport,
  RecordView,
  StepView,
};

/** A refusal or a failure, in sentences. */
export interface Problem {
  /** What did not happen. */
  readonly title: string;
  /** Why, and what the state is now. */
  readonly detail: string;
}

export interface Session {
  readonly operator: string;
  /** Whether this person may settle, retry, forget, redrive and discard. */
  readonly mayAct: boolean;
  /** Whether stored values are masked. */
  readonly redacts: boolean;
  /** The name of the installation, such as "production". */
  readonly title: string | null;
  /** Whether there is a session to end. */
  readonly canSignOut: boolean;
  readonly abilities: Operator["abilities"];
}

export interface DepthView {
  readonly count: number;
  readonly more: boolean;
  /** ISO 8601; null: there are no entries. */
  readonly oldestAt: string | null;
}

/** Shown on every page. */
export interface OverviewView {
  /** The store's time. */
  readonly now: string;
  readonly store: string;
  readonly unknown: DepthView;
  readonly dead: DepthView;
  readonly undelivered: DepthView | null;
  readonly pending: DepthView;
  readonly inProgress: DepthView;
  readonly retryable: DepthView;
  readonly overdueLeases: DepthView;
}

export interface ServiceView {
  readonly name: string;
  readonly alive: boolean;
  readonly running: boolean;
  readonly lastRoundAt: string | null;
  readonly failed: boolean;
}

/** Shown on the overview only. */
export interface OverviewPage {
  readonly overview: OverviewView;
  readonly unknown: Census;
  readonly dead: Census;
  /** Null: the handler was not given a worker. */
  readonly services: readonly ServiceView[] | null;
  /** Null: the handler was not given a history. */
  readonly history: HistoryView | null;
}

/** For this process, with one bucket per minute, oldest first. */
export interface HistoryView {
  readonly since: string;
  /** Seconds since the Unix epoch, of each bucket. */
  readonly minutes: readonly number[];
  readonly decisions: Readonly<Record<DecisionName, readonly number[]>>;
  readonly operations: readonly OperationView[];
  readonly tenants: readonly TenantView[];
}

export const decisionNames = [
  "executed",
  "replayed",
  "in_progress",
  "key_misuse",
  "expired",
  "unknown",
] as const;
export type DecisionName = (typeof decisionNames)[number];

export interface OperationView {
  readonly operation: string;
  readonly execution: string;
  readonly perMinute: number;
  /** Null: nothing was executed in the period. */
  readonly p50Ms: number | null;
  readonly p99Ms: number | null;
  readonly leaseMs: number | null;
}

/** Stands for the tenants that are not counted individually. */
export const others = "(others)";

export interface TenantView {
  readonly tenant: string;
  readonly requests: number;
  readonly duplicates: number;
}

export type Inspected =
  | {
      readonly kind: "record";
      readonly report: RecordReport;
      /** How the effect of the call in doubt is deduplicated; null: not known in this process, or no call is in doubt. */
      readonly deduplication: string | null;
    }
  | { readonly kind: "effect"; readonly effect: DeadEffectView; readonly choices: readonly Choice[] }
  | {
      readonly kind: "message";
      readonly message: MessageView;
      readonly payload: unknown;
      readonly choices: readonly Choice[];
    }
  | { readonly kind: "ambiguous"; readonly recordIds: readonly string[] }
  | { readonly kind: "not_found" };

/** Selects the entries of a queue to act on. */
export interface QueueQuery {
  readonly queue: "unknown" | "retryable" | "effect" | "message";
  readonly tenant?: string;
  readonly operation?: string;
  readonly effect?: string;
  readonly errorCode?: string;
  /** ISO 8601. */
  readonly notAfter?: string;
  readonly after?: string;
}

/** What is done to all selected entries. */
export type BulkAction =
  | {
      readonly kind: "settle";
      readonly outcome: "not-executed";
      readonly proof: "operator" | "closed-downstream";
    }
  | { readonly kind: "settle"; readonly outcome: "failed"; readonly status: number }
  /** Unknown records are looked up again, retryable ones are resumed. */
  | { readonly kind: "retry" }
  | { readonly kind: "redrive"; readonly doubt: "kept" | "cleared" }
  | { readonly kind: "discard" };

export interface JobView {
  readonly id: string;
  readonly state: "checked" | "running" | "finished";
  readonly operator: string;
  readonly reason: string;
  readonly startedAt: string | null;
  readonly total: number;
  /** Whether more entries match than are acted on at once. */
  readonly more: boolean;
  readonly done: number;
  readonly refused: number;
  /** The first refusals. */
  readonly refusals: readonly { readonly name: string; readonly title: string; readonly detail: string }[];
}
