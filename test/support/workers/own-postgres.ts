import { installation, POSTGRES_VERSIONS } from "../postgres-binaries.ts";
import { startPostgres } from "../private-postgres.ts";

/** Starts a server of the version given (or the newest), uses it, says so, and waits to be killed or stopped. */
const version = POSTGRES_VERSIONS.find((one) => one === Number(process.argv[2]));
const server = await startPostgres(version ? { version } : {});
await server.admin("create table t (a int)");
await server.admin("insert into t values (1)");
await server.kill9();
await server.restart();
const rows = await server.admin("select a from t");
const { bin, source } = installation(version);
const { pid, dataDir, url } = server;
console.log(JSON.stringify({ ready: true, uid: process.getuid?.(), pid, dataDir, url, rows, bin, source }));
if (process.argv.includes("--stop")) await server.stop();
else setInterval(() => {}, 1_000);
