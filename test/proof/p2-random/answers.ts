/** The answers of the world's handlers. Each has the number of the run that gave it. */
import type { Answer } from "../../../packages/latchkey/src/operations/answer.ts";
import type { RunAnswer } from "../../../packages/latchkey/src/operations/owned-work.ts";

/** What somebody says who has found out that a handler took effect. */
export function foundAnswer(nonce: number): RunAnswer {
  return { status: 201, body: { found: `nonce ${nonce}` } };
}

/** `rows`: whether the run of this nonce commits a row with it. */
export function handlerAnswer(status: number, life: string, nonce: number, rows: boolean): Answer {
  const body = Buffer.from(`${life} nonce ${nonce} ${rows ? "with" : "without"} row`);
  return { status, headers: [["x-run", `nonce ${nonce}`]], body, omitted: null };
}
