/** Many submissions of one key at once, from two services with a pool each. */
import pg from "pg";
import { createLatchkey, isLatchkeyError } from "../../../packages/latchkey/src/index.ts";
import { type PostgresStoreOptions, postgresStore } from "../../../packages/latchkey/src/stores/postgres.ts";
import type { Violation } from "./judge.ts";

type StoreOptions = Pick<PostgresStoreOptions<pg.Pool>, "namedStatements" | "notify" | "connectTimeoutMs">;

export interface Race {
  readonly url: string;
  readonly key: string;
  readonly contenders: number;
  readonly store: StoreOptions;
}

export interface RaceResult {
  /** Executed, replayed or running. */
  readonly answered: number;
  /** Refused, by the error's code and its cause's. */
  readonly refused: Readonly<Record<string, number>>;
  readonly violations: readonly Violation[];
}

export async function race({ url, key, contenders, store: options }: Race): Promise<RaceResult> {
  const services = [1, 2].map(() => service(url, contenders / 2, options));
  const refused: Record<string, number> = {};
  try {
    const submit = (index: number) =>
      services[index % 2]?.submit(key).catch((error: unknown) => {
        const name = isLatchkeyError(error) ? `${error.code} ${codeOf(error.cause)}` : codeOf(error);
        refused[name] = (refused[name] ?? 0) + 1;
        return null;
      });
    const results = await Promise.all(Array.from({ length: contenders }, (_, index) => submit(index)));
    const answers = results.filter((one) => one !== null && one !== undefined);
    const rows = (await services[0]?.rows(key)) ?? [];
    return { answered: answers.length, refused, violations: judge(key, answers, rows) };
  } finally {
    await Promise.all(services.map(({ close }) => close()));
  }
}

interface SubmitResult {
  readonly kind: string;
  readonly value: { readonly by: string } | null;
}

function service(url: string, max: number, options: StoreOptions) {
  const pool = new pg.Pool({ connectionString: url, max });
  pool.on("error", () => {});
  const store = postgresStore({ pool, ...options });
  const latchkey = createLatchkey({ store, circuitBreaker: false });
  const operation = latchkey.operation("races.run", { execution: "transaction" });
  return {
    async submit(key: string): Promise<SubmitResult> {
      const result = await latchkey.run(
        operation,
        { tenant: "t", key, input: key },
        async ({ tx, attempt }) => {
          const by = attempt.fence.token;
          await tx.query("insert into business (key, mode, record, token) values ($1, 'race', $2, $3)", [
            key,
            attempt.id,
            by,
          ]);
          return { by };
        },
      );
      return { kind: result.kind, value: "value" in result ? result.value : null };
    },
    async rows(key: string): Promise<readonly string[]> {
      const { rows } = await pool.query<{ token: string }>("select token from business where key = $1", [
        key,
      ]);
      return rows.map(({ token }) => token);
    },
    async close() {
      await store.close();
      await pool.end();
    },
  };
}

/** One row at most, and every answer is that of its run. */
function judge(key: string, answers: readonly SubmitResult[], rows: readonly string[]): readonly Violation[] {
  const found: Violation[] = [];
  const executed = answers.filter(({ kind }) => kind === "executed").length;
  if (rows.length > 1) found.push({ invariant: "I1", seen: `${key}: ${rows.length} business rows` });
  if (executed > 1)
    found.push({ invariant: "I1", seen: `${key}: ${executed} submissions got the reply that they ran` });
  const wrong = answers.filter(({ value }) => value !== null && value.by !== rows[0]);
  if (wrong.length > 0)
    found.push({ invariant: "I3", seen: `${key}: ${wrong.length} answers of no row that is there` });
  return found;
}

function codeOf(error: unknown): string {
  if (typeof error !== "object" || error === null) return String(error);
  if ("code" in error && typeof error.code === "string") return error.code;
  return "cause" in error && error.cause !== undefined ? codeOf(error.cause) : String(error);
}
