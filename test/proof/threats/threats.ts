/** What an attacker may try or what may go wrong, the control against it, and the tests that show the control. */

export interface ShownBy {
  /** Relative to the repository's root. */
  readonly file: string;
  /** Stands in the file as it is here: a test's title or a part of it. */
  readonly title: string;
}

export interface Threat {
  readonly threat: string;
  readonly control: string;
  readonly shownBy: readonly ShownBy[];
  /** What the control does not do. */
  readonly rest?: string;
}

const src = "packages/latchkey/src";
const cases = `packages/latchkey-conformance/src/http-conformance`;

export const threats: readonly Threat[] = [
  {
    threat: "A tenant is given another tenant's answer, or learns that it has one",
    control:
      "Every key has the tenant in a column of its own, so no separators join them. The tenant is required, and comes from the service, not from the client. What a tenant sees depends only on its own requests.",
    shownBy: [
      {
        file: "test/integration/security.test.ts",
        title: "tenants do not learn of each other, whatever both do",
      },
      {
        file: "test/integration/security.test.ts",
        title: "no separator makes two tenants, or two keys, one",
      },
      { file: `${cases}/refusals.ts`, title: "refusals: two tenants with the same key are independent" },
      {
        file: `${cases}/status.ts`,
        title: "status: for every other tenant and principal the operation does not exist",
      },
    ],
  },
  {
    threat: "Response times reveal which keys or operations another tenant has",
    control:
      "Another tenant's key is never read: the same statement looks under the caller's own tenant, and finds nothing.",
    shownBy: [{ file: "test/integration/timing.test.ts", title: "takes as long as one that does not exist" }],
    rest: "Within one tenant a replay is faster than a first request. That cannot be hidden.",
  },
  {
    threat: "Another user of the same tenant replays an answer, also after a permission was withdrawn",
    control:
      "An operation may name a `principal`; another principal gets key misuse. Adapters run after the service's authentication and authorisation, which therefore also decide on every replay.",
    shownBy: [
      { file: `${cases}/refusals.ts`, title: "refusals: another principal of the tenant learns nothing" },
      {
        file: `${cases}/refusals.ts`,
        title: "refusals: another principal cannot tell a key of the tenant",
      },
      {
        file: "test/integration/quality-gates.test.ts",
        title: "Q7: another principal gets nothing of the first one's answer",
      },
      {
        file: "test/integration/timing.test.ts",
        title: "a caller whose permission is withdrawn gets no replay",
      },
    ],
    rest: "If a service mounts Latchkey before its authorisation, replays have none. The adapters' pages say so.",
  },
  {
    threat: "A client reserves keys in advance, sprays keys, or creates them without end",
    control:
      "Each tenant has rate limits on new keys and look-ups, and a cap on its keys at a time. Keys have a retention and a maximum length. A tenant's keys do not block other tenants.",
    shownBy: [
      {
        file: "test/integration/hostile-answers.test.ts",
        title: "a tenant that sprays keys fills neither the store nor another tenant's limit",
      },
      {
        file: `${cases}/options.ts`,
        title: "options: a tenant over its limit is refused before anything runs; other tenants are not",
      },
      {
        file: "test/postgres/active-keys.test.ts",
        title: "what one process begins is refused by the other, and a full tenant goes on with its keys",
      },
    ],
    rest: "Latchkey counts keys for the cap every 30 seconds, so a tenant can exceed it for that long. Redis has no cap. Within one tenant, a caller who knows a key in advance can use it first; the other caller gets key misuse and needs a new key.",
  },
  {
    threat: "A key is reused for another request, route, method or query",
    control:
      "The fingerprint covers method, route, query, media type and body, and the chosen headers; the scope has the operation.",
    shownBy: [
      { file: `${src}/fingerprint/fingerprint.test.ts`, title: "what makes two requests different (F1)" },
      {
        file: `${src}/fingerprint/fingerprint.test.ts`,
        title: "a change of any one part changes the fingerprint",
      },
      { file: `${cases}/request-bodies.ts`, title: ": another request" },
    ],
  },
  {
    threat:
      "Two different bodies have the same fingerprint: long numbers, duplicate names, `__proto__`, lone surrogates",
    control:
      "The fingerprint uses a canonical form made from the JSON's source text, with exact numbers. Bodies without a canonical form are compared byte for byte.",
    shownBy: [
      { file: `${src}/fingerprint/canonical-json.test.ts`, title: "different values have different forms" },
      {
        file: `${src}/fingerprint/fingerprint.test.ts`,
        title:
          "different bytes of a JSON body have equal fingerprints only where they are the same JSON value",
      },
      {
        file: "test/integration/security.test.ts",
        title: "is distinguished from other JSON, or refused as a whole",
      },
      { file: "test/vectors/canonical-json.test.ts", title: "has an output in both forms for every input" },
    ],
  },
  {
    threat: "A body pollutes prototypes",
    control: "The JSON reader makes no objects from the names in a body.",
    shownBy: [
      { file: `${src}/fingerprint/canonical-json.test.ts`, title: "Object.prototype is not touched" },
    ],
  },
  {
    threat: "Deep, huge or slow input ties up the process",
    control:
      "Depth, size and lengths are limited. The readers of keys and JSON take linear time and use no backtracking expressions.",
    shownBy: [
      {
        file: `${src}/fingerprint/canonical-json.test.ts`,
        title: "a deeper limit needs no deeper call stack",
      },
      { file: "test/linear-time.all.test.ts", title: "canonical JSON" },
      { file: "test/linear-time.all.test.ts", title: "keys" },
    ],
  },
  {
    threat: "An answer cannot be stored after the handler has run (NUL, `\\u0000`, huge numbers, odd keys)",
    control:
      "Answers are stored as bytes. Everything that is stored as text is checked before anything runs.",
    shownBy: [
      {
        file: `packages/latchkey-conformance/src/store-conformance/bytes.ts`,
        title: "come back unchanged",
      },
      {
        file: `${src}/stores/postgres.database.test.ts`,
        title: "the longest key that is taken can be stored, whatever its bytes",
      },
    ],
  },
  {
    threat: "Requests with malformed, repeated or overlong keys run unprotected, or their keys collide",
    control: "They are refused with 400 before anything runs; two different keys never become one.",
    shownBy: [
      {
        file: `${src}/key/parse-key.test.ts`,
        title: "two different keys never become one; any lines are answered without a throw",
      },
      { file: `${cases}/keys.ts`, title: "keys: a repeated header is refused" },
      { file: "test/vectors/structured-field.test.ts", title: "as a key: %s" },
    ],
  },
  {
    threat: "A stored header injects other headers when it is replayed",
    control: "Header values are checked when they are captured and again when they are sent.",
    shownBy: [
      {
        file: "test/integration/hostile-answers.test.ts",
        title: "a header that was written into the store by hand cannot break out of its line",
      },
      { file: `${cases}/failures.ts`, title: "is not sent, and fails the attempt at once" },
    ],
  },
  {
    threat: "A replay reveals cookies, challenges or another request's ids",
    control:
      "Only headers on an allow-list are stored; cookies, credentials, hop-by-hop and CORS headers never are.",
    shownBy: [
      { file: `${src}/http/protocol/capture.test.ts`, title: "headers that belong to it" },
      {
        file: `${cases}/answers.ts`,
        title: "answers: the first caller gets every header, the second only those that belong to the answer",
      },
    ],
  },
  {
    threat: "A request whose answer is too large to store runs again, or its answer fills the store",
    control: "An answer over the cap leaves a tombstone that says so, and nothing runs again.",
    shownBy: [
      {
        file: `${cases}/answers.ts`,
        title: "answers: one too large to store leaves a tombstone that says so, and never runs again",
      },
    ],
  },
  {
    threat: "An attacker reads stored answers and inputs in the database, its WAL or a dump",
    control:
      "The [encryption codec](encryption.md) uses AES-256-GCM, with a key for each record that is derived from a rotating key.",
    shownBy: [
      { file: "test/postgres/encryption.test.ts", title: "what a look into the database shows" },
      { file: `${src}/encryption.test.ts`, title: "never repeats a nonce" },
    ],
    rest: "Keys, tenants, effects' names, sizes and times are not encrypted; `keySecret` stores a keyed hash in place of the key.",
  },
  {
    threat: "An attacker in the database moves encrypted rows to other records",
    control:
      "Each encrypted value is authenticated together with its tenant, operation, key, fingerprint, record and place.",
    shownBy: [
      {
        file: "test/postgres/encryption.test.ts",
        title: "rows that an intruder in the database, without a key, has changed",
      },
      { file: `${src}/encryption.test.ts`, title: "no bit of it can be changed" },
    ],
  },
  {
    threat: "Keys or bodies appear in logs, errors or metrics",
    control: "Events contain keyed hashes instead of keys. Problems never repeat what the client sent.",
    shownBy: [
      {
        file: "test/integration/security.test.ts",
        title: "neither answers nor logs say a key, and logs say no body",
      },
    ],
  },
  {
    threat: "A retry after the retention runs again",
    control:
      "Answers can tell the client when its key expires. A service can limit a request's age. Calls keep their downstream key for the life of the record.",
    shownBy: [
      {
        file: `${cases}/options.ts`,
        title: "options: a request that was first sent too long ago is refused",
      },
      {
        file: `${cases}/refusals.ts`,
        title: "refusals: an expired key is refused until it is forgotten, then runs as new",
      },
    ],
    rest: "Without an age limit, a retry runs as new once its key is forgotten.",
  },
  {
    threat: "Names from the configuration are executed as SQL",
    control: "Only plain lower-case names are accepted. Everything else is a parameter.",
    shownBy: [{ file: `${src}/stores/postgres.options.test.ts`, title: "plain names are taken" }],
  },
  {
    threat: "A hostile schema is in the search path, or the role has more rights than it needs",
    control:
      "Every function and table name is qualified. A role that may only read and write rows is enough.",
    shownBy: [
      {
        file: `${src}/stores/postgres.database.test.ts`,
        title: "functions of a hostile schema, first in the search path, are not called",
      },
      {
        file: `${src}/stores/postgres.database.test.ts`,
        title: "a role that may only read and write rows is enough",
      },
    ],
  },
  {
    threat: "A client chooses keys whose advisory locks collide",
    control: "Lock numbers are keyed hashes, with a secret that is made with the schema.",
    shownBy: [{ file: `${src}/key/hash-key.test.ts`, title: "depends on the secret" }],
  },
  {
    threat: "A failed attempt that should be retried is final, or an error that should not be replayed is",
    control: "One table decides what is kept, by status, execution and policy.",
    shownBy: [
      { file: `${src}/engine/classify.test.ts`, title: "" },
      { file: `${cases}/failures.ts`, title: "failures: a 5xx rolls back and is released" },
    ],
  },
  {
    threat: "An operator or a job settles an unknown outcome without proof",
    control:
      "A settlement names its proof and the version of the record that the decision is based on, and leaves an audit row.",
    shownBy: [{ file: `${src}/execution/settle.test.ts`, title: "proof" }],
    rest: "You control who may run the command line: it works with the database's credentials.",
  },
  {
    threat: "A stored effect is redirected to another destination",
    control:
      "The code of an effect's definition decides where it goes. The store has only its name and its input, which can be encrypted and authenticated.",
    shownBy: [
      { file: "test/postgres/encryption.test.ts", title: "an effect's input does not go to another effect" },
    ],
  },
  {
    threat: "A dependency is compromised",
    control: "The published package has no runtime dependencies and runs no install script.",
    shownBy: [{ file: "scripts/check-package.test.ts", title: "" }],
  },
];
