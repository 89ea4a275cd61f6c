/** A function that makes an app, which is not ready yet. */
import fastify from "fastify";
import { createLatchkey } from "latchkey";
import { fastifyProtect } from "latchkey/fastify";
import { memoryStore } from "latchkey/memory";

// biome-ignore lint/style/noDefaultExport: what the command loads
export default async function makeApp() {
  const latchkey = createLatchkey({ store: memoryStore() });
  const app = fastify();
  const protect = fastifyProtect(app, latchkey, { tenant: () => "account-1" });
  app.register((plugin, _options, done) => {
    plugin.post(
      "/payments/:id",
      protect(latchkey.operation("payments.charge"), async () => ({ id: 1 })),
    );
    plugin.put("/profile", async () => null);
    done();
  });
  return app;
}
