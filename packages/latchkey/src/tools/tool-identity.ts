/** On whose behalf a tool is called: the same choice as in HTTP adapters, also without a default. */
import { LatchkeyError } from "../errors.ts";

type Possibly<T> = T | null | undefined;

/** The tenant, from authentication, never from the arguments, which a model wrote. `C` is the SDK's context of the call. */
export type ToolTenant<C> = (context: C) => Possibly<string> | Promise<Possibly<string>>;

export type ToolIdentity<C> = {
  /**
   * The caller within the tenant, from authentication; a replay to another principal of the same tenant is refused.
   * Default: null, so that all callers of a tenant may get its replays.
   */
  readonly principal?: (context: C) => Possibly<string> | Promise<Possibly<string>>;
} & (
  | { readonly tenant: ToolTenant<C>; readonly singleTenant?: never }
  /** All calls belong to one tenant: for a server with one user, as over stdio. */
  | { readonly singleTenant: true; readonly tenant?: never }
);

/** The tenant's name under `singleTenant`. Parentheses distinguish it from names that people choose. */
const singleTenantName = "(single)";

/**
 * @returns a function that resolves both; it throws {LatchkeyError} `tenant-missing` if `tenant` throws
 * @throws {TypeError} if neither `tenant` nor `singleTenant` is given, or both.
 */
export function resolveIdentity<C>(
  what: string,
  { tenant, singleTenant, principal = () => null }: ToolIdentity<C>,
): (context: C) => Promise<{ readonly tenant: unknown; readonly principal: unknown }> {
  const tenantOf = singleTenant === true && tenant === undefined ? () => singleTenantName : tenant;
  if (typeof tenantOf !== "function" || (singleTenant !== undefined && tenant !== undefined)) {
    throw new TypeError(
      `${what}: set on whose behalf tools are called: either \`tenant: (context) => …\`, taken from authentication, or \`singleTenant: true\``,
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
