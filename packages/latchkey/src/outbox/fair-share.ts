/** Shares the capacity of one dispatcher among effects. Pure. */

export interface EffectCapacity {
  /** How many its own limits allow. */
  readonly own: number;
  readonly inFlight: number;
  /** The last claim returned as many as it requested, so there may be more. */
  readonly hasBacklog: boolean;
}

/** What an effect with a backlog gets for each one that an effect without a known backlog gets. */
const backlogShare = 8;

/**
 * How many of each effect may be claimed; together at most `size` minus those in flight. Half of the capacity is divided
 * equally among the effects, and what one does not use of its part stays reserved for it. So an effect whose sends are slow can
 * fill its own part and the other half, never the parts of others.
 *
 * @param turn differs from round to round, so that an uneven remainder does not always go to the same effect
 */
export function fairShare(size: number, effects: readonly EffectCapacity[], turn: number): readonly number[] {
  const kept = Math.floor(size / (2 * Math.max(1, effects.length)));
  const unused = ({ inFlight }: EffectCapacity) => Math.max(0, kept - inFlight);
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
