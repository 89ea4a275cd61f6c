/** One whole schedule: what is drawn for it, chaos, calm, and what was seen. */
import { Calm } from "./calm.ts";
import { Chaos } from "./chaos.ts";
import type { Choices } from "./choices.ts";
import { drawConfig } from "./config.ts";
import { drive } from "./drive.ts";
import type { Report } from "./report.ts";
import { World, type WorldOptions } from "./world.ts";

export async function runSchedule(choices: Choices, options: WorldOptions = {}): Promise<Report> {
  const world = new World(drawConfig(choices), choices, options);
  const { report } = world;
  report.trace.say(() => JSON.stringify(world.config));
  const chaos = new Chaos(world);
  await drive(world, () => chaos.step());
  const calm = new Calm(world);
  await drive(world, () => calm.step());
  if (report.violation === null) calm.check();
  return report;
}
