/** The example's settings from its environment. */
export interface Settings {
  /** 0: any free port. */
  readonly port: number;
  /** Undefined: the embedded database. */
  readonly databaseUrl: string | undefined;
  /** `PROVIDER_URL`: where charges go. Null: there is no `POST /charges`. */
  readonly providerUrl: string | null;
  /** `LEASE_MS`: how long the key of a charge stays locked after its process has died. */
  readonly leaseMs: number;
  /** True unless `WORKERS=off`: this process also resumes the work of others. */
  readonly workers: boolean;
  /** `ALSO_WITHOUT_LATCHKEY=1`: also `POST /charges-without-latchkey`, for comparison. Never in a real service. */
  readonly compare: boolean;
}

/** @throws {TypeError} for invalid values. Its message does not repeat the URL, which may contain a password. */
export function readSettings(env: NodeJS.ProcessEnv): Settings {
  const { DATABASE_URL, PROVIDER_URL } = env;
  const port = wholeNumber(env, "PORT", 3_000, 0, 65_535);
  const leaseMs = wholeNumber(env, "LEASE_MS", 30_000, 300, 3_600_000);
  const databaseUrl = DATABASE_URL || undefined;
  if (databaseUrl !== undefined && !/^postgres(ql)?:$/u.test(URL.parse(databaseUrl)?.protocol ?? "")) {
    throw new TypeError(
      "DATABASE_URL must be postgres://user:password@host:port/database (or unset, for the embedded database)",
    );
  }
  if (PROVIDER_URL && !/^https?:$/u.test(URL.parse(PROVIDER_URL)?.protocol ?? "")) {
    throw new TypeError("PROVIDER_URL must be http://host:port (or unset: then there is no POST /charges)");
  }
  return {
    port,
    databaseUrl,
    providerUrl: PROVIDER_URL || null,
    leaseMs,
    workers: env.WORKERS !== "off",
    compare: env.ALSO_WITHOUT_LATCHKEY === "1",
  };
}

/** @throws {TypeError} unless the variable is unset, empty, or a whole number between the two. */
export function wholeNumber(
  env: NodeJS.ProcessEnv,
  name: string,
  unset: number,
  least: number,
  greatest: number,
): number {
  const text = env[name] || String(unset);
  const value = /^[0-9]{1,9}$/u.test(text) ? Number(text) : Number.NaN;
  if (value >= least && value <= greatest) return value;
  throw new TypeError(`${name} must be a whole number from ${least} to ${greatest} (got ${text})`);
}
