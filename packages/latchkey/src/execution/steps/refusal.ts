/** The stored form of a refusal: a resumed attempt throws the same one again. */
import { EffectRefused } from "../../errors.ts";
import { encodeJson } from "../stored-values.ts";

interface StoredRefusal {
  readonly message: string;
  readonly detail?: unknown;
}

/** The detail comes from a client; if it has no JSON form, the refusal is stored without it. */
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

/** @param cause the error of the other service's client, if it is still known */
export function restoreRefusal(stored: unknown, cause?: unknown): EffectRefused {
  const { message, detail } = stored as StoredRefusal;
  return new EffectRefused({ message, detail, cause });
}
