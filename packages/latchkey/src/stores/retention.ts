/** How long what has ended is kept. Apart from the store, whose parts it belongs to, so that these need not import it. */
export interface Retention {
  /** From the end of the attempt until the answer's bytes may go. */
  readonly retentionMs: number;
  /** From the end of the attempt until the key is forgotten; never shorter than `retentionMs`. */
  readonly forgetAfterMs: number;
}
