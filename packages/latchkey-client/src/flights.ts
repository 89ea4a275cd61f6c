/** Equal calls of one page or process share one flight; each gets its own copy of the answer. */

interface Flight {
  readonly answer: Promise<Response>;
  readonly controller: AbortController;
  callers: number;
}

/** Joins the flight under `id`, or starts it. A caller's signal ends its own wait; the flight ends with its last caller. */
export type JoinFlight = (
  id: string,
  signal: AbortSignal | null,
  start: (signal: AbortSignal) => Promise<Response>,
) => Promise<Response>;

export function createFlights(): JoinFlight {
  const flights = new Map<string, Flight>();
  const end = (id: string, flight: Flight) => {
    if (flights.get(id) === flight) flights.delete(id);
  };
  const begin = (id: string, start: (signal: AbortSignal) => Promise<Response>) => {
    const controller = new AbortController();
    const flight: Flight = { answer: start(controller.signal), controller, callers: 0 };
    flights.set(id, flight);
    const over = () => end(id, flight);
    flight.answer.then(over, over);
    return flight;
  };
  return async (id, signal, start) => {
    signal?.throwIfAborted();
    const flight = flights.get(id) ?? begin(id, start);
    flight.callers += 1;
    return new Promise((resolve, reject) => {
      const leave = () => {
        reject(signal?.reason);
        flight.callers -= 1;
        if (flight.callers > 0) return;
        // Later callers get a new flight, not one that was aborted.
        end(id, flight);
        flight.controller.abort(signal?.reason);
      };
      signal?.addEventListener("abort", leave);
      flight.answer
        .finally(() => signal?.removeEventListener("abort", leave))
        .then((response) => resolve(response.clone()), reject);
    });
  };
}
