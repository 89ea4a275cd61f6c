/** What happens in one failover, drawn from its seed. */
import { drawFrom, seedOf } from "../harness/seeded.ts";

export interface Plan {
  /** A COMMIT that never arrives: its bytes are kept back until the primary is dead. */
  readonly holdCommit: boolean;
  /** A COMMIT whose confirmation never arrives. */
  readonly holdReply: boolean;
  /**
   * The link to the standby before the primary dies. `cut`: gone. `stall-down`: what is written does not arrive.
   * `stall-up`: it arrives, and the primary does not hear of it.
   */
  readonly link: "flows" | "cut" | "stall-down" | "stall-up";
  /** What becomes of COMMITs that wait for the standby, where the link does not flow. */
  readonly waits: "left" | "cancel" | "terminate";
  /** `promote-first`: the old primary still runs when the standby takes over, and dies later. */
  readonly end: "kill" | "promote-first";
}

const links = ["flows", "cut", "stall-down", "stall-up"] as const;
const waits = ["left", "cancel", "terminate"] as const;

/** Twelve in a row have every link with every outcome of the waits; the rest is drawn. */
export function planOf(seed: bigint, run: number): Plan {
  const draw = drawFrom(seedOf(seed, run));
  const link = links[run % links.length] ?? "flows";
  return {
    holdCommit: draw.oneIn(2),
    holdReply: draw.oneIn(2),
    link,
    waits: link === "flows" ? "left" : (waits[Math.floor(run / links.length) % waits.length] ?? "left"),
    end: draw.oneIn(3) ? "promote-first" : "kill",
  };
}

/** Everything that one failover can hold. */
export const fullest: Plan = {
  holdCommit: true,
  holdReply: true,
  link: "stall-down",
  waits: "cancel",
  end: "kill",
};

export function nameOf({ holdCommit, holdReply, link, waits: outcome, end }: Plan): string {
  const parts = [
    holdCommit && "COMMIT held",
    holdReply && "reply held",
    `link ${link}`,
    link !== "flows" && `waits ${outcome}`,
    end,
  ];
  return parts.filter((part) => part !== false).join(", ");
}
