/** A mistake, planted into one store. */
import type { Store } from "../../../packages/latchkey/src/stores/store.ts";
import type { PartName } from "./parts.ts";

export interface Plant {
  readonly name: string;
  readonly part: PartName;
  readonly change: (store: Store<unknown>) => Partial<Store<unknown>>;
}
