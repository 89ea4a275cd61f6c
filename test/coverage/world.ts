/** Compares what an audit says of an app with what its routes do when the same request comes twice. */
import type { RequestListener } from "node:http";
import { expect } from "vitest";
import { auditOf, routesOf } from "../../packages/latchkey/src/http/coverage/audit.ts";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import { memoryStore } from "../../packages/latchkey/src/stores/memory.ts";
import { listen } from "../support/listen.ts";
import { within } from "../support/until.ts";

/** One latchkey and its operations, and how often the handlers of each route ran. */
export function openWorld() {
  const latchkey = createLatchkey({ store: memoryStore() });
  const runs = new Map<string, number>();
  return {
    latchkey,
    options: { tenant: () => "t" },
    create: latchkey.operation("orders.create", { execution: "lease", keyScope: "path" }),
    serve: latchkey.operation("orders.serve", {
      execution: "lease",
      keyScope: "path",
      version: "1",
      async run(input: { readonly route: string }) {
        count(runs, input.route);
        return { status: 200, body: "served" };
      },
    }),
    /** To be called by each handler with the route's name. */
    ran: (route: string) => count(runs, route),
    runs,
  };
}

export type World = ReturnType<typeof openWorld>;

function count(runs: Map<string, number>, route: string): void {
  runs.set(route, (runs.get(route) ?? 0) + 1);
}

/** By method and path as the framework has it; the URL is for what has parameters. */
export interface KnownRoute {
  readonly route: string;
  readonly url?: string;
  /** Null: nothing protects it. */
  readonly by: string | null;
}

/** What the audit says of each state-changing route, in order. */
export function audited(app: unknown): readonly KnownRoute[] {
  return auditOf(routesOf(app), []).routes.map(({ method, path, operation }) => ({
    route: `${method} ${path}`,
    by: operation,
  }));
}

/** Fails unless the audit says the expected, and the app does what the audit says. */
export async function expectTruth(
  world: World,
  app: unknown,
  listener: RequestListener,
  expected: readonly KnownRoute[],
): Promise<void> {
  expect(audited(app)).toEqual(expected.map(({ route, by }) => ({ route, by })));
  const served = await listen(listener);
  try {
    for (const { route, url, by } of expected) {
      const [name = "", path = ""] = route.split(" ");
      for (const method of name === "ALL" ? ["POST", "PUT", "PATCH", "DELETE"] : [name]) {
        world.runs.clear();
        const statuses = [];
        for (const _ of [1, 2]) {
          const headers = { "idempotency-key": `key-${method}`, "content-type": "application/json" };
          const sending = fetch(`${served.url}${url ?? path}`, { method, headers, body: "{}" });
          const sent = await within(sending, `an answer of ${route}`);
          await sent.arrayBuffer();
          statuses.push(sent.status);
        }
        expect({ route, method, statuses }).toEqual({ route, method, statuses: [200, 200] });
        const ran = [...world.runs.values()].reduce((sum, one) => sum + one, 0);
        expect({ route, method, ran }).toEqual({ route, method, ran: by === null ? 2 : 1 });
      }
    }
  } finally {
    await served.close();
  }
}
