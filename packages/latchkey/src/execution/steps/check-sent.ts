/** What is refused of a submission before anything is asked, however it comes. */
import type { RecordKey } from "../../engine/record.ts";
import { LatchkeyError } from "../../errors.ts";
import { looksLikeCredential } from "../../key/looks-like-credential.ts";
import { isPlaceholderKey } from "../../key/parse-key.ts";
import { plainText } from "../../plain-text.ts";

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
        `after the next refresh a retry would be another ${field}'s, and the credential would be stored in clear. ` +
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
      message: `The idempotency key is ${shown}, which stands for no value. Pass a key that is new for every intention.`,
    });
  }
}
