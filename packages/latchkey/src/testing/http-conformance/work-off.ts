import type { Latchkey } from "../../latchkey.ts";

export async function workOff<Tx>(_latchkey: Latchkey<Tx>): Promise<void> {}
