/** The test's end of the fixture's gate (LATCHKEY_FIXTURE_GATE): handlers arrive, and wait until they are released. */
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { onRelease } from "./resources.ts";
import { deferred, within } from "./until.ts";

/** A handler that waits at the gate. */
export interface Arrival {
  readonly route: string;
  readonly tenant: string;
  readonly key: string | null;
  readonly attempt: number;
  readonly pid: number;
  release(): void;
}

export interface HandlerGate {
  /** Give it to the fixture as LATCHKEY_FIXTURE_GATE. */
  readonly path: string;
  /** The next handler that arrives, or has arrived and was not asked for yet. */
  arrival(): Promise<Arrival>;
  /** How many have arrived so far. */
  arrivals(): number;
}

/** Listens in `folder`; ends with the test file. */
export async function openHandlerGate(folder: string): Promise<HandlerGate> {
  const path = join(folder, "gate");
  const arrived: Arrival[] = [];
  const waiting: ((arrival: Arrival) => void)[] = [];
  const sockets = new Set<Socket>();
  let count = 0;
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {}).on("close", () => sockets.delete(socket));
    socket.setEncoding("utf8").once("data", (line: unknown) => {
      const arrival: Arrival = { ...JSON.parse(String(line)), release: () => socket.end("go") };
      count += 1;
      const next = waiting.shift();
      if (next === undefined) arrived.push(arrival);
      else next(arrival);
    });
  });
  server.listen(path);
  await once(server, "listening");
  onRelease(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return {
    path,
    arrivals: () => count,
    arrival() {
      const first = arrived.shift();
      if (first !== undefined) return Promise.resolve(first);
      const next = deferred<Arrival>();
      waiting.push(next.resolve);
      return within(next.promise, "a handler arrives at the gate");
    },
  };
}
