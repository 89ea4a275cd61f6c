/** All faults that checks can find. Codes are stable: reports, `--ignore` and users' scripts refer to them. */

/**
 * `effect`: something can happen twice, or be lost. `privacy`: one caller gets another's data. `answer`: a client gets a
 * wrong answer, or none. `form`: statuses and headers differ from the profile.
 */
export type FaultKind = "effect" | "privacy" | "answer" | "form";

interface FaultRow {
  readonly kind: FaultKind;
  readonly title: string;
}

export const faultTable = {
  "ran-twice": { kind: "effect", title: "The same key ran again" },
  "retry-refused": { kind: "answer", title: "A retry is refused instead of answered" },
  "retry-failed": { kind: "answer", title: "A retry fails" },
  "replay-status": { kind: "answer", title: "A replay has another status" },
  "replay-body": { kind: "answer", title: "A replay has another body" },
  "replay-headers": { kind: "answer", title: "A replay lacks headers of the answer, or has different ones" },
  "replay-cookie": { kind: "privacy", title: "A replay sets the first caller's cookie again" },
  "replay-unmarked": { kind: "form", title: "A replay is not marked" },
  "first-marked": { kind: "form", title: "A first answer is marked as a replay" },
  "misuse-replayed": { kind: "answer", title: "Another body under the same key got the first one's answer" },
  "misuse-ran": { kind: "effect", title: "Another body under the same key ran" },
  "misuse-status": { kind: "form", title: "Another body under the same key is refused with another status" },
  "misuse-failed": { kind: "answer", title: "Another body under the same key fails" },
  "misuse-overwrote": {
    kind: "effect",
    title: "After another body, the retry of the first one does not get its answer",
  },
  "misuse-race-ran": { kind: "effect", title: "Two simultaneous bodies under one key ran" },
  "race-ran-twice": { kind: "effect", title: "Simultaneous requests ran more than once" },
  "race-failed": { kind: "answer", title: "Simultaneous requests fail" },
  "race-status": { kind: "form", title: "Simultaneous requests are refused with another status" },
  "race-stuck": { kind: "answer", title: "After simultaneous requests the key stays blocked" },
  "race-no-retry-after": { kind: "form", title: "A refusal does not say when to retry" },
  "cut-ran-twice": { kind: "effect", title: "A retry after a cut connection ran again" },
  "cut-stuck": { kind: "answer", title: "After a cut connection the key stays blocked" },
  "cut-failed": { kind: "answer", title: "A retry after a cut connection fails" },
  "tenant-leak": { kind: "privacy", title: "One caller gets another caller's answer" },
  "tenant-collision": { kind: "privacy", title: "One caller's key blocks another caller's" },
  "tenant-overwrote": {
    kind: "effect",
    title: "After a second caller has used the key, the first caller's retry does not get its answer",
  },
  "missing-key-accepted": { kind: "form", title: "A request without a key is accepted" },
  "missing-key-refused": { kind: "form", title: "A request without a key is refused" },
  "missing-key-status": { kind: "form", title: "A request without a key is refused with another status" },
  "missing-key-failed": { kind: "answer", title: "A request without a key fails" },
  "empty-key-accepted": { kind: "form", title: "An empty key is accepted" },
  "no-key-shared": {
    kind: "effect",
    title: "Requests without a key, or with an empty one, are treated as one",
  },
  "malformed-key-accepted": { kind: "form", title: "A malformed key is accepted" },
  "malformed-key-status": { kind: "form", title: "A malformed key is refused with another status" },
  "malformed-key-failed": { kind: "answer", title: "A malformed key makes the server fail" },
  "key-case-folded": { kind: "effect", title: "Keys that differ in case are treated as one" },
  "key-truncated": { kind: "effect", title: "Long keys that differ only at the end are treated as one" },
  "quoted-key-refused": { kind: "form", title: "A key in quotes is refused" },
  "quoted-key-ran-twice": { kind: "effect", title: "The same key in quotes ran again" },
  "bare-key-refused": { kind: "form", title: "A key without quotes is refused" },
  "bare-key-ran-twice": { kind: "effect", title: "The same key without quotes ran again" },
  "error-stuck": { kind: "answer", title: "After a server error the key stays blocked" },
  "error-as-success": { kind: "answer", title: "A server error is replayed as a success" },
  "error-ran-twice": { kind: "effect", title: "A failed request took effect, and so did its retry" },
  "error-not-replayed": { kind: "form", title: "A server error is not replayed" },
  "error-replayed": { kind: "form", title: "A server error is replayed" },
  "route-leak": { kind: "effect", title: "One route returns another route's answer" },
  "key-not-echoed": { kind: "form", title: "The answer does not repeat the key" },
  "no-answer": { kind: "answer", title: "A request got no answer" },
} as const satisfies Record<string, FaultRow>;

export type FaultCode = keyof typeof faultTable;

export interface Fault {
  readonly code: FaultCode;
  readonly kind: FaultKind;
  readonly title: string;
  /** What was sent and what was returned. */
  readonly message: string;
}

export function makeFault(code: FaultCode, message: string): Fault {
  return { code, ...faultTable[code], message };
}

export function isFaultCode(text: string): text is FaultCode {
  return Object.hasOwn(faultTable, text);
}
