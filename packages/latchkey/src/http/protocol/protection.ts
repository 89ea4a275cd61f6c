/** Marks on the handlers that adapters return, so that audits of route tables recognise protected routes. */
import type { Operation } from "../../operations/operation.ts";

export interface Protection {
  /** Name of the operation. */
  readonly operation: string;
  /** The protected methods, in capitals; null: all methods of the route. */
  readonly methods: readonly string[] | null;
}

/** In the global symbol registry, so that a second copy of the package reads the marks of the first. */
const mark = Symbol.for("latchkey.protection");

/** Marks a handler that an adapter returns, and returns it. */
export function markProtected<H extends object>(
  handler: H,
  operation: Pick<Operation, "name">,
  methods: ReadonlySet<string> | null = null,
): H {
  const protection: Protection = {
    operation: operation.name,
    methods: methods === null ? null : [...methods],
  };
  return Object.defineProperty(handler, mark, { value: protection });
}

/** Null: no adapter returned this handler. */
export function protectionOf(handler: unknown): Protection | null {
  if ((typeof handler !== "function" && typeof handler !== "object") || handler === null) return null;
  const found: unknown = Reflect.get(handler, mark);
  return found === undefined ? null : (found as Protection);
}
