/** How long finished records are kept. In a file of its own, so that parts of the store need not import the store. */
export interface Retention {
  /** From the end of the attempt until the answer's bytes may go. */
  readonly retentionMs: number;
  /** From the end of the attempt until the key is forgotten; never shorter than `retentionMs`. */
  readonly forgetAfterMs: number;
}
