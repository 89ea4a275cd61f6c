/** What a client really sends: a proxy in front of the fixture that reads along. */
import { startProxy, type TcpProxy } from "../support/tcp-proxy.ts";

export interface Wire {
  readonly proxy: TcpProxy;
  readonly port: number;
  /** The keys of the requests that were passed on; null: none was sent. */
  readonly keys: readonly (string | null)[];
}

export async function openWire(port: number): Promise<Wire> {
  const proxy = await startProxy({ to: { port }, protocol: "bytes" });
  const keys: (string | null)[] = [];
  proxy.observe((message) => {
    if (isRequest(message)) keys.push(keyOf(message.bytes));
  });
  return { proxy, port: proxy.port, keys };
}

/** The first bytes of a request: no client here sends another on a connection before the answer. */
export function isRequest({ bytes }: { readonly bytes: Buffer }): boolean {
  return bytes.toString("latin1", 0, 5) === "POST ";
}

function keyOf(bytes: Buffer): string | null {
  const [head = ""] = bytes.toString("latin1", 0, 16_384).split("\r\n\r\n");
  return /^idempotency-key: (.*)$/imu.exec(head)?.[1]?.trim() ?? null;
}
