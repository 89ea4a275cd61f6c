import type { RequestListener } from "node:http";
import type {
  HttpAnswer,
  HttpCall,
} from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { send } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { listen } from "../support/listen.ts";

/** An app that answers, however it is asked: over a socket, or by a call, as wrappers and test libraries do. */
export interface Served {
  call(call: HttpCall): Promise<HttpAnswer>;
  /** Resolves when nothing of it is left. */
  close(): Promise<void>;
}

/** What a mount may say beside having changed its app. What it leaves out: the app is served on a port. */
export type Mounted = Partial<Served> | undefined;
export type Mounting = Mounted | Promise<Mounted>;

export async function serveListener(listener: RequestListener): Promise<Served> {
  const { url, closeWhenIdle } = await listen(listener);
  return { call: (call) => send(url, call), close: closeWhenIdle };
}

/** What a mount has answered, with the app on a port for what it has left out. */
export async function withDefaults(
  mounted: Mounted,
  listener: () => RequestListener | Promise<RequestListener>,
): Promise<Served> {
  const { call, close = async () => {} }: Partial<Served> = mounted ?? {};
  if (call !== undefined) return { call, close };
  const served = await serveListener(await listener());
  return {
    call: served.call,
    async close() {
      await served.close();
      await close();
    },
  };
}
