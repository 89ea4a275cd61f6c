import type { RequestListener } from "node:http";
import { nodeProtect } from "../../../../packages/latchkey/src/http/node.ts";
import { limit, type MakeListener, nodeHandlers, type Parts, single } from "../../../docs/handlers.ts";

export const services: Readonly<Record<string, MakeListener>> = { node: onNode };

function onNode({ service, row, ran, nextRequest }: Parts): RequestListener | null {
  const handle = nodeHandlers[row];
  if (handle === null) return null;
  const protect = nodeProtect(service.latchkey, single);
  const handler = protect(service.operation(limit), (req, res) => {
    ran();
    return handle(req, res);
  });
  return (req, res) => {
    res.setHeader("X-Request", nextRequest());
    handler(req, res).catch(() => res.writeHead(500).end("failed"));
  };
}
