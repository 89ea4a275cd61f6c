/** Equal calls of one page or process share one call: it is sent once, and each caller gets a copy of the answer. */

interface SharedCall {
  readonly answer: Promise<Response>;
  readonly controller: AbortController;
  callers: number;
}

/** Joins the call under `id`, or starts it. A caller's signal ends its own wait; the call ends with its last caller. */
export type JoinCall = (
  id: string,
  signal: AbortSignal | null,
  start: (signal: AbortSignal) => Promise<Response>,
) => Promise<Response>;

export function createSharedCalls(): JoinCall {
  const calls = new Map<string, SharedCall>();
  const end = (id: string, call: SharedCall) => {
    if (calls.get(id) === call) calls.delete(id);
  };
  const begin = (id: string, start: (signal: AbortSignal) => Promise<Response>) => {
    const controller = new AbortController();
    const call: SharedCall = { answer: start(controller.signal), controller, callers: 0 };
    calls.set(id, call);
    const over = () => end(id, call);
    call.answer.then(over, over);
    return call;
  };
  return async (id, signal, start) => {
    signal?.throwIfAborted();
    const call = calls.get(id) ?? begin(id, start);
    call.callers += 1;
    return new Promise((resolve, reject) => {
      const leave = () => {
        reject(signal?.reason);
        call.callers -= 1;
        if (call.callers > 0) return;
        // Later callers get a new call, not one that was aborted.
        end(id, call);
        call.controller.abort(signal?.reason);
      };
      signal?.addEventListener("abort", leave);
      call.answer
        .finally(() => signal?.removeEventListener("abort", leave))
        .then((response) => resolve(response.clone()), reject);
    });
  };
}
