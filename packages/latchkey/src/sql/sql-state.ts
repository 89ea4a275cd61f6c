/** How deep an ORM may wrap a driver's error. */
const causeDepthMax = 5;

/**
 * The SQLSTATE an error or one of its causes carries, or null. ORMs wrap the driver's error in their own: Sequelize has it
 * as `original`.
 */
export function sqlStateOf(error: unknown): string | null {
  let current = error;
  for (let depth = 0; depth < causeDepthMax && current instanceof Error; depth++) {
    if ("clientVersion" in current) return prismaStateOf(current);
    const code = "code" in current ? current.code : undefined;
    // A system error such as EPIPE has five characters too.
    if (typeof code === "string" && isSqlState(code) && !("syscall" in current)) return code;
    current = current.cause ?? ("original" in current ? current.original : undefined);
  }
  return null;
}

/** Prisma's errors have codes of their own in the form of a SQLSTATE (P2002), and the driver's beside `cause`. */
function prismaStateOf({ meta }: Error & { readonly meta?: PrismaMeta }): string | null {
  const code = meta?.driverAdapterError?.cause?.originalCode;
  return typeof code === "string" && isSqlState(code) ? code : null;
}

interface PrismaMeta {
  readonly driverAdapterError?: { readonly cause?: { readonly originalCode?: unknown } };
}

function isSqlState(code: string): boolean {
  return (
    code.length === 5 &&
    [...code].every((char) => (char >= "0" && char <= "9") || (char >= "A" && char <= "Z"))
  );
}

/** True when the database undid a transaction that may succeed when it runs again: 40001 and 40P01. */
export function isSerializationFailure(error: unknown): boolean {
  const state = sqlStateOf(error);
  return state === "40001" || state === "40P01";
}
