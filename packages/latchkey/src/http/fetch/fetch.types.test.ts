import { expectTypeOf, test } from "vitest";
import { createLatchkey } from "../../latchkey.ts";
import { type MemoryTransaction, memoryStore } from "../../stores/memory.ts";
import { fetchProtect } from "./fetch.ts";

const latchkey = createLatchkey({ store: memoryStore() });
const transactional = latchkey.operation("types.transaction", { execution: "transaction" });
const leased = latchkey.operation("types.lease", { execution: "lease" });

test("a protected handler is a Fetch handler, with whatever else its platform passes", () => {
  const protect = fetchProtect(latchkey, { tenant: (request) => request.headers.get("x-tenant") });
  const handler = protect(transactional, async (request, { tx, attempt }) => {
    expectTypeOf(request).toEqualTypeOf<Request>();
    expectTypeOf(tx).toEqualTypeOf<MemoryTransaction>();
    return Response.json({ id: attempt.id });
  });
  expectTypeOf(handler).toEqualTypeOf<(request: Request) => Promise<Response>>();
  const routed = protect(leased, async (_request, _context, { params }: { params: { id: string } }) =>
    Response.json(params),
  );
  expectTypeOf(routed).parameters.toEqualTypeOf<[Request, { params: { id: string } }]>();
});

test("a platform's own request is there beside the readable one", () => {
  interface PlatformRequest extends Request {
    readonly cf: { readonly country: string };
  }
  const protect = fetchProtect(latchkey, { tenant: (request: PlatformRequest) => request.cf.country });
  const handler = protect(leased, (_request, { original }) => new Response(original.cf.country));
  expectTypeOf(handler).parameter(0).toEqualTypeOf<PlatformRequest>();
});

test("a lease has no tx", () => {
  const protect = fetchProtect(latchkey, { singleTenant: true });
  // @ts-expect-error there is no transaction under a lease
  protect(leased, (_request, { tx }) => Response.json(tx));
});
