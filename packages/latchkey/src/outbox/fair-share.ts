/** How the room of one dispatcher is shared among effects. Pure. */

export interface EffectRoom {
  /** How many its own limits leave it. */
  readonly own: number;
  readonly inFlight: number;
  /** The last claim brought as many as it asked for: there may be more. */
  readonly hasBacklog: boolean;
}

/** What an effect with a backlog gets while another, of which nothing is known, gets one. */
const backlogShare = 8;

/**
 * How many of each may be claimed; together at most `size` less what is in flight. Half of the room is kept for effects
 * that do not use it, in equal parts: an effect whose other side is slow fills its own part, and never all.
 *
 * @param turn differs from round to round, so that what cannot be shared evenly is not always the same one's
 */
export function fairShare(size: number, effects: readonly EffectRoom[], turn: number): readonly number[] {
  const kept = Math.floor(size / (2 * Math.max(1, effects.length)));
  const unused = ({ inFlight }: EffectRoom) => Math.max(0, kept - inFlight);
  const keptForAll = effects.reduce((sum, effect) => sum + unused(effect), 0);
  let left = size - effects.reduce((sum, { inFlight }) => sum + inFlight, 0);
  const most = effects.map((effect) =>
    Math.max(0, Math.min(effect.own, left - (keptForAll - unused(effect)))),
  );
  const given = effects.map(() => 0);
  for (let progress = true; progress && left > 0; ) {
    progress = false;
    for (let step = 0; step < effects.length && left > 0; step++) {
      const at = (step + turn) % effects.length;
      const wanted = (effects[at]?.hasBacklog ?? false) ? backlogShare : 1;
      const more = Math.min(wanted, left, (most[at] ?? 0) - (given[at] ?? 0));
      given[at] = (given[at] ?? 0) + more;
      left -= more;
      progress ||= more > 0;
    }
  }
  return given;
}
