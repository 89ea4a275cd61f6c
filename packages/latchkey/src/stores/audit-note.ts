/** The fields of an audit row beside the change itself. */
export interface AuditNote {
  /** UUIDv7 of the row: repeating a settlement whose reply was lost adds none. */
  readonly id: string;
  /** `outcome-reconciler`, `owner`, or the operator's name. */
  readonly actor: string;
  /** `downstream-deduplicates`, `closed-downstream`, `found-downstream`, `no-call-in-doubt`, `operator`, `webhook`, `owner`. */
  readonly proof: string;
  readonly reason: string | null;
}
