/** Which routes of an Express app take a change without an idempotency key: each is asked, so use a database for tests. */
import type { AddressInfo } from "node:net";
import type { Express } from "express";

const changing = new Set(["post", "put", "patch", "delete"]);

interface Layer {
  readonly route?:
    | { readonly path: string; readonly stack: readonly { readonly method: string }[] }
    | undefined;
}

/** @param except routes that need no key, such as webhooks that carry an id of their own: `POST /webhooks` */
export async function unprotectedRoutes(
  app: Express,
  headers: Readonly<Record<string, string>>,
  except: readonly string[] = [],
): Promise<readonly string[]> {
  const server = app.listen(0);
  const { port } = server.address() as AddressInfo;
  try {
    const found = [];
    for (const { method, path } of routesOf(app)) {
      if (except.includes(`${method} ${path}`)) continue;
      const url = `http://localhost:${port}${path.replaceAll(/[:*]\w+/g, "1")}`;
      const response = await fetch(url, { method, headers });
      const body = await response.text();
      if (!body.includes('"code":"missing-key"')) found.push(`${method} ${path}`);
    }
    return found;
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

/** Those on the app itself: Express does not say where a router is mounted, so give each router to a call of its own. */
function routesOf(app: Express): readonly { readonly method: string; readonly path: string }[] {
  return (app.router.stack as readonly Layer[]).flatMap(({ route }) => {
    const methods = new Set(
      route?.stack.map(({ method }) => method).filter((method) => changing.has(method)),
    );
    return [...methods].map((method) => ({ method: method.toUpperCase(), path: route?.path ?? "" }));
  });
}
