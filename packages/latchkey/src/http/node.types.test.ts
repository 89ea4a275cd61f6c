import { createServer, type IncomingMessage } from "node:http";
import { expectTypeOf, test } from "vitest";
import { createLatchkey } from "../latchkey.ts";
import { type MemoryTransaction, memoryStore } from "../stores/memory.ts";
import { nodeProtect } from "./node.ts";

const latchkey = createLatchkey({ store: memoryStore() });
const transactional = latchkey.operation("types.transaction", { execution: "transaction" });
const leased = latchkey.operation("types.lease", { execution: "lease" });

interface Known extends IncomingMessage {
  accountId: string;
}

test("what it returns is a listener of node:http", () => {
  const protect = nodeProtect(latchkey, { tenant: ({ headers }) => headers.host });
  createServer(
    protect(transactional, (req, res, { tx, attempt, body }) => {
      expectTypeOf(req).toEqualTypeOf<IncomingMessage>();
      expectTypeOf(tx).toEqualTypeOf<MemoryTransaction>();
      expectTypeOf(body).toEqualTypeOf<Buffer>();
      res.end(attempt.id);
    }),
  );
});

test("a service's own requests reach tenant functions and handlers", () => {
  const protect = nodeProtect(latchkey, { tenant: (req: Known) => req.accountId });
  const handle = protect(leased, (req, res) => res.end(req.accountId));
  expectTypeOf(handle).parameter(0).toEqualTypeOf<Known>();
});

test("a lease has no tx", () => {
  const protect = nodeProtect(latchkey, { singleTenant: true });
  // @ts-expect-error there is no transaction under a lease
  protect(leased, (_req, _res, { tx }) => tx);
});
