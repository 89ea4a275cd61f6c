/**
 * A network between the measured servers and their database: a relay that delivers every chunk half a round trip later.
 * Node's timers have a resolution of a millisecond, so the relay polls while chunks are in transit, which takes up to a core.
 */
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

interface Delivery {
  readonly atMs: number;
  readonly deliver: () => void;
}

const [port = "", roundTrip = ""] = process.argv.slice(2);
const delayMs = Number(roundTrip) / 2;
/** In the order in which they are due, because all have the same delay. */
const underWay: Delivery[] = [];
let polling = false;

function later(deliver: () => void): void {
  underWay.push({ atMs: performance.now() + delayMs, deliver });
  if (!polling) setImmediate(poll);
  polling = true;
}

function poll(): void {
  for (let first = underWay[0]; first !== undefined && first.atMs <= performance.now(); first = underWay[0]) {
    underWay.shift();
    first.deliver();
  }
  polling = underWay.length > 0;
  if (polling) setImmediate(poll);
}

function relay(from: Socket, to: Socket): void {
  from.setNoDelay(true);
  from.on("data", (chunk) => later(() => to.write(chunk)));
  from.on("end", () => later(() => to.end()));
  from.on("error", () => to.destroy());
}

const server = createServer((client) => {
  const database = connect(Number(port), "127.0.0.1");
  relay(client, database);
  relay(database, client);
});
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`${JSON.stringify({ ready: true, port: (server.address() as AddressInfo).port })}\n`);
});
