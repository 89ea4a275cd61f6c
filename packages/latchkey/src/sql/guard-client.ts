/**
 * The guard around a client that a handler gets as `tx`: it lets statements through, refuses those that would end the
 * transaction or take the connection away, and can be revoked. It catches accidents, such as an ORM's `transaction()`
 * on the raw client; the guard that travels with COMMIT catches those that this one cannot see.
 */
import { LatchkeyError } from "../errors.ts";
import { findTransactionControl } from "./transaction-control.ts";

export interface GuardRules {
  /** Methods that send SQL: their first argument is its text, or has it as `text`. */
  readonly statementMethods: readonly string[];
  /** Methods that would take the connection out of Latchkey's hands. */
  readonly refusedMethods: readonly string[];
}

export interface GuardedClient<C> {
  readonly tx: C;
  /** Whether a statement was let through. */
  used(): boolean;
  /** Whether a statement was let through that names something of the session: a role, a search path, temporary tables. */
  mayHaveChangedSession(): boolean;
  /** From now on every call throws, or rejects with, `tx-revoked`. */
  revoke(): void;
}

/** A false match, such as a column of that name, only costs time. */
const changesSession =
  /\b(?:set_config|role|authorization|search_path|schema|row_security|client_encoding|names|reset|discard|temp|temporary)\b/i;

type Method = (...args: unknown[]) => unknown;

/** @param send passes a statement on to the client; default: the call is made as the handler made it */
export function guardClient<C extends object>(
  client: C,
  rules: GuardRules,
  send: (method: Method, args: readonly unknown[]) => unknown = (method, args) =>
    Reflect.apply(method, client, args),
): GuardedClient<C> {
  let used = false;
  let revoked = false;
  let changing = false;

  const call = (name: string, method: Method, args: unknown[]): unknown => {
    if (revoked) return refuse(args, new LatchkeyError("tx-revoked"));
    if (rules.refusedMethods.includes(name)) return refuse(args, notYours(`\`${name}()\` was called on`));
    if (rules.statementMethods.includes(name)) {
      const text = statementText(args[0]);
      const control = findTransactionControl(text);
      if (control !== null) return refuse(args, notYours(`${control} was sent through`));
      used = true;
      changing ||= changesSession.test(text);
      return send(method, args);
    }
    return Reflect.apply(method, client, args);
  };

  const tx = new Proxy(client, {
    get(target, property) {
      const value: unknown = Reflect.get(target, property, target);
      if (typeof value !== "function" || typeof property === "symbol" || property === "constructor") {
        return value;
      }
      return (...args: unknown[]) => call(property, value as Method, args);
    },
  });
  return {
    tx,
    used: () => used,
    mayHaveChangedSession: () => changing,
    revoke: () => {
      revoked = true;
    },
  };
}

function notYours(what: string): LatchkeyError {
  return new LatchkeyError("transaction-control", { message: `${what} a handler's \`tx\`` });
}

/** The text of a statement given as a string, a template, a config object, or a query object of its own. */
export function statementText(statement: unknown): string {
  if (typeof statement === "string") return statement;
  if (Array.isArray(statement)) return statement.join("$1");
  if (typeof statement !== "object" || statement === null || !("text" in statement)) return "";
  return typeof statement.text === "string" ? statement.text : "";
}

/** Reports the error in the way that the call expects: to its callback, as an exception for a query object, else as a rejected promise. */
function refuse(args: readonly unknown[], error: LatchkeyError): unknown {
  const callback = args.at(-1);
  if (typeof callback === "function") {
    queueMicrotask(() => Reflect.apply(callback, undefined, [error]));
    return undefined;
  }
  const [first] = args;
  if (typeof first === "object" && first !== null && "submit" in first) throw error;
  return Promise.reject(error);
}
