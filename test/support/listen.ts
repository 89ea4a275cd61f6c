import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";

export interface Listening {
  readonly url: string;
  /** Ends every connection. */
  close(): Promise<void>;
  /** Resolves when the clients have closed all connections, without closing any itself. */
  closeWhenIdle(): Promise<void>;
}

/** Serves on a free port, reachable from this machine only. */
export async function listen(listener: RequestListener): Promise<Listening> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const closeWhenIdle = () => new Promise<void>((resolve) => server.close(() => resolve()));
  return {
    url: `http://127.0.0.1:${port}`,
    async close() {
      const closed = closeWhenIdle();
      server.closeAllConnections();
      await closed;
    },
    closeWhenIdle,
  };
}
