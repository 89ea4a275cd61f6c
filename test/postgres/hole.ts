/** A server in front of a database that goes on accepting connections, and answers none. */
import net from "node:net";
import { onRelease } from "../support/resources.ts";

/** Accepts connections; those that come while it is a hole are never answered, also later. */
export async function holeInFrontOf(target: string) {
  const to = new URL(target);
  const [port, host] = [Number(to.port), to.hostname];
  const state = { isHole: false };
  const open = new Set<net.Socket>();
  const server = net.createServer((client) => {
    open.add(client);
    client.on("error", () => {}).on("close", () => open.delete(client));
    if (state.isHole) return;
    const up = net.connect(port, host);
    up.on("error", () => client.destroy()).on("close", () => client.destroy());
    client.on("close", () => up.destroy());
    client.pipe(up).pipe(client);
  });
  const ownPort = await listenBelow(server);
  const cut = () => {
    for (const socket of open) socket.destroy();
  };
  onRelease(async () => {
    cut();
    await new Promise((resolve) => server.close(resolve));
  });
  to.hostname = "127.0.0.1";
  to.port = String(ownPort);
  return {
    url: to.href,
    begin: () => {
      state.isHole = true;
      cut();
    },
    end: () => {
      state.isHole = false;
    },
  };
}

async function listenBelow(server: net.Server): Promise<number> {
  for (let port = 20_000 + (process.pid % 5_000); ; port++) {
    const listening = await new Promise<boolean>((resolve) => {
      server.removeAllListeners("listening").once("error", () => resolve(false));
      server.listen(port, "127.0.0.1", () => resolve(true));
    });
    if (listening) return port;
  }
}
