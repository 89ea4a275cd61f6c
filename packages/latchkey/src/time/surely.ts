import { StoreError } from "../errors.ts";
import { type Clock, pause } from "../ports.ts";

/** Five tries within three seconds. */
const pauseMaxMs = 800;

/** Repeats a call that is harmless to repeat, because a lost reply does not show whether it was done. */
export async function surely<T>(clock: Clock, run: () => Promise<T>): Promise<T> {
  for (let pauseMs = 100; ; pauseMs *= 2) {
    try {
      return await run();
    } catch (error) {
      if (!(error instanceof StoreError) || pauseMs > pauseMaxMs) throw error;
      await pause(clock, pauseMs);
    }
  }
}
