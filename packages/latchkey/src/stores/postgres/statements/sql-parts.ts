/** What the statements are written for: the names of a schema's tables, and which optional parts they have. */

export interface SqlNames {
  /** Qualified table names. */
  readonly records: string;
  readonly leases: string;
  readonly steps: string;
  readonly outbox: string;
  readonly messages: string;
  readonly audit: string;
  readonly early: string;
  readonly facts: string;
  readonly settings: string;
  /** The call that returns the store's time. */
  readonly clock: string;
  /** Whether a COMMIT must be on disk before it is acknowledged. */
  readonly synced: boolean;
  /** Whether the server ends transactions and statements that last too long. */
  readonly serverLimits: boolean;
  /** Whether sessions may have lower limits of their own, which stay. Default: no. */
  readonly compared?: boolean;
  /** Whether a new life has a trace. Default: no; a service without tracing sends no parameter for it. */
  readonly traced?: boolean;
}
