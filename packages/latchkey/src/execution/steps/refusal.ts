/** How a refusal is kept: a resumed attempt throws the same again. */
import { EffectRefused } from "../../errors.ts";
import { encodeJson } from "../stored-values.ts";

interface StoredRefusal {
  readonly message: string;
  readonly detail?: unknown;
}

/** The detail is what some client has put there; without one that has no JSON form it is a refusal all the same. */
export function storeRefusal({ message, detail }: EffectRefused): StoredRefusal {
  return detail === undefined || !hasJson(detail) ? { message } : { message, detail };
}

function hasJson(value: unknown): boolean {
  try {
    encodeJson("A refusal's detail", value);
    return true;
  } catch {
    return false;
  }
}

/** @param cause what the other side's client threw, where it is still known */
export function restoreRefusal(stored: unknown, cause?: unknown): EffectRefused {
  const { message, detail } = stored as StoredRefusal;
  return new EffectRefused({ message, detail, cause });
}
