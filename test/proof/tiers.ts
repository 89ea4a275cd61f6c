/** The tiers that exist. */
import type { Tier, TierId } from "./harness/tier.ts";
import { tier as p0 } from "./p0-model/tier.ts";
import { tier as p1 } from "./p1-schedules/tier.ts";
import { tier as p2 } from "./p2-random/tier.ts";
import { tier as p3 } from "./p3-stores/tier.ts";
import { tier as p4 } from "./p4-statements/tier.ts";
import { tier as p5 } from "./p5-kills/tier.ts";
import { tier as p6 } from "./p6-soak/tier.ts";
import { tier as p7 } from "./p7-planted/tier.ts";

export const tiers: Readonly<Partial<Record<TierId, Tier>>> = {
  P0: p0,
  P1: p1,
  P2: p2,
  P3: p3,
  P4: p4,
  P5: p5,
  P6: p6,
  P7: p7,
};
