/** Sends statements whose caller passes a callback: the bridge gives names only to those whose result is a promise. */

/** A guarded `pg` client. */
export interface QueryClient {
  query(query: unknown, values?: unknown): unknown;
}

type Callback = (error: unknown, result?: unknown) => void;

/** Sends a statement as it was called, but asks for a promise where a callback was given. */
export function queryWithCallback(client: QueryClient, args: readonly unknown[]): unknown {
  const [statement, ...rest] = args;
  const callback = rest.at(-1);
  if (typeof callback !== "function" || isQueryObject(statement)) return client.query(statement, ...rest);
  const [values] = rest.slice(0, -1);
  return callBack(values === undefined ? client.query(statement) : client.query(statement, values), callback);
}

export function callBack(result: unknown, callback: unknown): void {
  const call = callback as Callback;
  Promise.resolve(result).then(
    (value) => call(null, value),
    (error) => call(error),
  );
}

/** For example a stream, which has a callback of its own. */
function isQueryObject(statement: unknown): boolean {
  return typeof statement === "object" && statement !== null && "submit" in statement;
}
