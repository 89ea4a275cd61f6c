import type { RequestListener } from "node:http";
import type { Framework, Guard, Job } from "./subject.ts";

const starts: Readonly<
  Record<Framework, () => Promise<(job: Job, guard: Guard) => Promise<RequestListener>>>
> = {
  express: async () => (await import("./express.ts")).startExpress,
  fastify: async () => (await import("./fastify.ts")).startFastify,
  hono: async () => (await import("./hono.ts")).startHono,
};

/** The endpoint of a subject; of the frameworks only its own is loaded. */
export async function startListener(framework: Framework, job: Job, guard: Guard): Promise<RequestListener> {
  const start = await starts[framework]();
  return start(job, guard);
}
