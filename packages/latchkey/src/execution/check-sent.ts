/** Rejects invalid submissions before the store is read, for all entry points. */
import type { RecordKey } from "../engine/record.ts";
import { LatchkeyError } from "../errors.ts";
import { isPlaceholderKey } from "../key/parse-key.ts";
import { plainText } from "../plain-text.ts";

export type CheckIdentity = (field: "tenant" | "principal", text: string) => void;

/** @param allowCredentials whether a tenant or a principal may look like a credential */
export function identityCheck(allowCredentials: boolean): CheckIdentity {
  if (allowCredentials) return () => {};
  return (field, text) => {
    const kind = looksLikeCredential(text);
    if (kind === null) return;
    throw new LatchkeyError("identity-is-credential", {
      message:
        `The ${field} looks like ${kind}. Return a stable claim of the authenticated caller, such as its account's id: ` +
        `after its next refresh a retry would belong to another ${field}, and the credential would be stored in clear. ` +
        "If your ids really look like that: createLatchkey({ allowCredentialIdentities: true }).",
    });
  };
}

/** @throws {LatchkeyError} `identity-is-credential`, `invalid-key`. */
export function checkSent(
  check: CheckIdentity,
  { key, principal }: { readonly key: RecordKey; readonly principal: string | null },
): void {
  check("tenant", key.tenant);
  if (principal !== null) check("principal", principal);
  if (isPlaceholderKey(key.key)) {
    const shown = `"${plainText(key.key.trim())}"`;
    throw new LatchkeyError("invalid-key", {
      message: `The idempotency key is ${shown}, which stands for no value. Pass a new key for every intention.`,
    });
  }
}

/**
 * The kind of credential that a tenant or principal looks like; null if it does not. A credential changes at every refresh or
 * rotation: a later retry would belong to another tenant, and run again. It would also be stored in clear.
 *
 * The check is conservative: names of customers, host names, UUIDs, e-mail addresses and numbers never match.
 */
export function looksLikeCredential(text: string): string | null {
  if (!mayBeOne.test(text)) return null;
  const [, scheme = "", rest = ""] = /^([\w-]+)[ \t]+(.+)$/u.exec(text.trim()) ?? [];
  if (scheme !== "")
    return isCredentialOf(scheme.toLowerCase(), rest) ? `an Authorization header (${scheme})` : null;
  if (isJsonWebToken(text)) return "a JSON Web Token";
  return apiKey.test(text) ? "an API key" : null;
}

/** Rules out nearly every tenant. `e` begins the Base64 of `{`. */
const mayBeOne =
  /^\s*(?:(?:bearer|basic|digest|negotiate|ntlm|dpop|hawk|mac|oauth|gnap|token|apikey|api-key|aws4-hmac-sha256|privatetoken)[ \t]|e[\w-]+\.|[sr]k[-_]|gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|xapp-|npm_|pypi-|hf_|shp(?:at|ca|pa|ss)_|whsec_|dop_v1_|AKIA|ASIA|AIza|ya29\.|SG\.)/iu;

/** The prefixes alone may be names, but no name continues with so many letters and digits. */
const apiKey =
  /^(?:[sr]k_(?:live|test|prod)_\w{10,}|sk-[\w-]{20,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeprs]-[\w-]{16,}|xapp-[\w-]{16,}|npm_\w{20,}|pypi-[\w-]{20,}|hf_\w{20,}|shp(?:at|ca|pa|ss)_\w{16,}|whsec_[\w+/=-]{16,}|dop_v1_\w{20,}|A[KS]IA[A-Z0-9]{16}|AIza[\w-]{30,}|ya29\.[\w-]{20,}|SG\.[\w-]{16,}\.[\w-]{16,})$/u;

/** "Token Ring" and "Basic Fit" may be customers. */
function isCredentialOf(scheme: string, rest: string): boolean {
  switch (scheme) {
    case "bearer":
      return !/\s/u.test(rest);
    case "basic":
      return /^[\w+/-]+={0,2}$/u.test(rest) && Buffer.from(rest, "base64").includes(":");
    case "digest":
    case "hawk":
    case "mac":
    case "oauth":
    case "aws4-hmac-sha256":
      return /^\w+=/u.test(rest);
    default:
      return /^[\w.~+/-]{16,}=*$/u.test(rest) || /^\w+=\S/u.test(rest);
  }
}

/** Signed tokens have three parts, encrypted ones five; the first is a JSON object. */
function isJsonWebToken(text: string): boolean {
  const parts = text.split(".");
  if ((parts.length !== 3 && parts.length !== 5) || !parts.every((part) => /^[\w-]*$/u.test(part)))
    return false;
  try {
    const head: unknown = JSON.parse(Buffer.from(parts[0] ?? "", "base64url").toString("utf8"));
    return typeof head === "object" && head !== null;
  } catch {
    return false;
  }
}
