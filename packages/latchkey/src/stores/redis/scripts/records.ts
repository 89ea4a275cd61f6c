/**
 * The steps on one record. False means that the guard did not hold and nothing was written. Each is harmless when a client
 * sends it twice: the second time it finds either its own work, and returns the same, or a guard that no longer holds.
 */
import { script } from "./script.ts";
import { lua } from "./texts.ts";

export const recordScripts = {
  read: script("read", lua.read, { timed: true }),
  begin: script("begin", lua.begin, { begins: true }),
  takeOver: script("take over", lua.takeOver, { begins: true }),
  claimPending: script("claim pending", lua.claimPending, { begins: true }),
  renew: script("renew", lua.renew),
  finish: script("finish", lua.finish),
  release: script("release", lua.release),
  park: script("park", lua.park),
  giveUp: script("give up", lua.giveUp),
  clean: script("clean", lua.clean),
};
