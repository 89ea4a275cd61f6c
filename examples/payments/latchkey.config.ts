/**
 * The payments API for the command line: `npm run latchkey -- list --config examples/payments/latchkey.config.ts`. The
 * embedded database belongs to one process, so stop the API first; with DATABASE_URL it may keep running.
 */
import { defineConfig } from "latchkey";
import { createApp } from "./app.ts";
import { openDatabase } from "./database.ts";
import { openMailService } from "./receipts.ts";
import { readSettings } from "./settings.ts";

const settings = readSettings(process.env);
const database = await openDatabase(settings.databaseUrl);
const mail = openMailService("./.latchkey/receipts.jsonl");
const { latchkey } = createApp({ ...database, ...settings, mail });

export default defineConfig({ latchkey, close: database.close });
