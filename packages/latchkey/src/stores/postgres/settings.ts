import type { RecordKey } from "../../engine/record.ts";
import { LatchkeyError } from "../../errors.ts";
import { hashKeyForLock } from "../../key/hash-key.ts";
import { isSchemaMissing } from "../../sql/sql-errors.ts";
import type { PostgresExecutor } from "./executor.ts";
import { sql } from "./sql/texts.ts";
import { onlyRow, textOf } from "./statements/rows.ts";
import type { SqlNames } from "./statements/sql-parts.ts";
import { statement } from "./statements/statement.ts";
import type { StatementTemplate } from "./statements/template.ts";
import { checkSuitability } from "./suitability.ts";

/** The version of the tables that this code works with: the number of the last migration. */
export const schemaVersion = 8;

/** The table `settings`, which the migrations have filled. The secret never changes, so it is read once. */
export class Settings {
  readonly #executor: PostgresExecutor;
  readonly #statement: StatementTemplate;
  readonly #suitability: StatementTemplate;
  readonly #schema: string;
  #secret: Promise<string> | string | null = null;
  #suits = false;

  constructor(executor: PostgresExecutor, names: SqlNames, schema: string) {
    this.#executor = executor;
    this.#statement = statement("settings", sql.settings, names);
    this.#suitability = statement("suitability", sql.suitability, names);
    this.#schema = schema;
  }

  /** @throws {LatchkeyError} `schema-invalid`, `store-unsuitable` */
  async verify(): Promise<void> {
    this.#suits = false;
    await this.suits();
    const found = (await this.#read()).get("schema_version");
    if (found !== String(schemaVersion)) {
      const message = `Schema ${this.#schema} has version ${found ?? "(none)"}, and this code needs version ${schemaVersion}`;
      throw new LatchkeyError("schema-invalid", { message });
    }
  }

  /**
   * Checks once whether the role and its sessions are suitable.
   *
   * @throws {LatchkeyError} `store-unsuitable`
   */
  async suits(): Promise<void> {
    if (this.#suits) return;
    const rows = await this.#executor.read(this.#suitability.bind({ schema: this.#schema }));
    checkSuitability(this.#schema, onlyRow(rows));
    this.#suits = true;
  }

  /** The number of the key's advisory lock, as text: no driver loses digits of it. */
  lockOf({ tenant, scope, key }: RecordKey): string | Promise<string> {
    const lock = (secret: string) => hashKeyForLock(secret, tenant, scope, key).toString();
    const secret = this.#secret ?? this.#loadSecretOnce();
    return typeof secret === "string" ? lock(secret) : secret.then(lock);
  }

  #loadSecretOnce(): Promise<string> {
    const learning = this.#readSecret().then(
      (secret) => {
        this.#secret = secret;
        return secret;
      },
      (error: unknown) => {
        this.#secret = null;
        throw error;
      },
    );
    this.#secret = learning;
    return learning;
  }

  async #readSecret(): Promise<string> {
    await this.suits();
    const secret = (await this.#read()).get("lock_secret");
    if (secret === undefined || secret === "") {
      throw new LatchkeyError("schema-invalid", { message: `Schema ${this.#schema} has no lock secret` });
    }
    return secret;
  }

  async #read(): Promise<ReadonlyMap<string, string>> {
    const rows = await this.#executor.read(this.#statement.bind({}));
    return new Map(rows.map((row) => [textOf(row, "name"), textOf(row, "value")]));
  }
}

/** A missing table is a missing migration, not a database that is down. */
export function asSchemaError(error: unknown): unknown {
  return isSchemaMissing(error) ? new LatchkeyError("schema-invalid", { cause: error }) : error;
}
