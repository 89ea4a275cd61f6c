/** How the handlers that adapters return say that they protect a route, for audits of route tables. */
import type { Operation } from "../../operations/operation.ts";

export interface Protection {
  /** Name of the operation. */
  readonly operation: string;
  /** The methods that are protected, in capitals; null: whichever the route has. */
  readonly methods: readonly string[] | null;
}

/** Of the global registry, so that a second copy of the package reads the marks of the first. */
const mark = Symbol.for("latchkey.protection");

/** Marks what an adapter returns, and gives it back. */
export function protecting<H extends object>(
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

/** Null: it is nothing that an adapter has returned. */
export function protectionOf(handler: unknown): Protection | null {
  if ((typeof handler !== "function" && typeof handler !== "object") || handler === null) return null;
  const found: unknown = Reflect.get(handler, mark);
  return found === undefined ? null : (found as Protection);
}
