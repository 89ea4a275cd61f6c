/** On whose behalf a tool is called. The same choice as HTTP adapters have, and no default either. */
import { LatchkeyError } from "../errors.ts";

type Possibly<T> = T | null | undefined;

/** From authentication, never from the arguments, which a model has written. `C` is what the SDK knows of the call. */
export type ToolTenant<C> = (context: C) => Possibly<string> | Promise<Possibly<string>>;

export type ToolIdentity<C> = {
  /**
   * Who asks, within the tenant; a replay to another principal of the same tenant is refused. From authentication.
   * Default: nobody in particular.
   */
  readonly principal?: (context: C) => Possibly<string> | Promise<Possibly<string>>;
} & (
  | { readonly tenant: ToolTenant<C>; readonly singleTenant?: never }
  /** All calls are of one tenant: for a server of one user, as over stdio. */
  | { readonly singleTenant: true; readonly tenant?: never }
);

/** The tenant of a server that has none. Parentheses keep it apart from names that people give. */
const singleTenantName = "(single)";

/**
 * @returns what asks for both; it throws {LatchkeyError} `tenant-missing` where `tenant` throws
 * @throws {TypeError} when nothing says whose calls they are.
 */
export function resolveIdentity<C>(
  what: string,
  { tenant, singleTenant, principal = () => null }: ToolIdentity<C>,
): (context: C) => Promise<{ readonly tenant: unknown; readonly principal: unknown }> {
  const tenantOf = singleTenant === true && tenant === undefined ? () => singleTenantName : tenant;
  if (typeof tenantOf !== "function" || (singleTenant !== undefined && tenant !== undefined)) {
    throw new TypeError(
      `${what}: say on whose behalf tools are called: either \`tenant: (context) => …\`, taken from authentication, or \`singleTenant: true\``,
    );
  }
  return async (context) => {
    let given: unknown;
    try {
      given = await tenantOf(context);
    } catch (cause) {
      throw new LatchkeyError("tenant-missing", { cause });
    }
    return { tenant: given, principal: await principal(context) };
  };
}
