/** A service that consumes messages and refuses each, until it is set not to. The test and its config define the same. */
import { type Codec, createInbox, createLatchkey, MessageRefused, type RedrivenMessage } from "latchkey";
import { encryptionCodec } from "latchkey/encryption";
import { postgresStore } from "latchkey/postgres";
import pg from "pg";

export type ParcelService = ReturnType<typeof parcelService>;

/** What the config has published, in this process. */
export const published: RedrivenMessage[] = [];

/** By the variable as it is now: a test's process loads the config once. */
const codec: Codec = {
  encode: (plain, context) => codecNow()?.encode(plain, context) ?? plain,
  decode: (stored, context) => codecNow()?.decode(stored, context) ?? stored,
};

function codecNow(): Codec | null {
  const secret = process.env.PARCELS_SECRET;
  if (secret === undefined) return null;
  return encryptionCodec({ keys: { k1: Buffer.from(secret) }, current: "k1" });
}

export function parcelService(connectionString: string) {
  const pool = new pg.Pool({ connectionString, max: 4 });
  pool.on("error", () => {});
  const store = postgresStore({ pool });
  const latchkey = createLatchkey({ store, codec });
  let refuses = true;
  const operation = latchkey.operation("parcels.send", { writes: "none" });
  const tenant = ({ headers }: { headers: Readonly<Record<string, unknown>> }) =>
    String(headers.tenant ?? "shop");
  const inbox = createInbox(latchkey, operation, { tenant }, async () => {
    if (refuses) throw new MessageRefused();
  });
  return {
    latchkey,
    inbox,
    refuse: (refusing: boolean) => {
      refuses = refusing;
    },
    async close() {
      await store.close();
      await pool.end();
    },
  };
}
