/** The steps that settle unknown records. */
import { script } from "./script.ts";
import { lua } from "./texts.ts";

export const settlementScripts = {
  settle: script("settle", lua.settle),
  hasten: script("hasten", lua.hasten),
  claimUnknown: script("claim unknown", lua.claimUnknown),
  postpone: script("postpone", lua.postpone),
  keepEarly: script("keep early", lua.keepEarly),
  early: script("early", lua.early),
  audit: script("audit", lua.audit),
};
