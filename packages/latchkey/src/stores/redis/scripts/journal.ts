/** The steps on the journal of a record, each by its owner alone. */
import { script } from "./script.ts";
import { lua } from "./texts.ts";

export const journalScripts = {
  journal: script("journal", lua.journal),
  startCall: script("start call", lua.startCall, { begins: true }),
  endCall: script("end call", lua.endCall),
  refence: script("refence", lua.refence),
  call: script("call", lua.call),
};
