import type { Problem, RenderedProblem } from "latchkey";

/** Adds the member `error`: without it stripe-node hands a problem to its user as a result. */
export function renderProblem(problem: Problem): RenderedProblem {
  const error = {
    type: problem.code === "key-misuse" ? "idempotency_error" : "api_error",
    code: problem.code,
    message: problem.detail,
  };
  return { body: JSON.stringify({ ...problem, error }), contentType: "application/problem+json" };
}
