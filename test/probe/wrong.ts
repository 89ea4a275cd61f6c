/** Servers that are wrong in one thing each, and what the probe must find there. */
import { randomUUID } from "node:crypto";
import type { FaultCode } from "../../packages/latchkey-probe/src/faults.ts";
import { type Behaviour, type KeyReading, problem, type Reply, rightBehaviour } from "./server.ts";

export interface Wrong {
  readonly name: string;
  readonly behaviour: Partial<Behaviour>;
  readonly finds: readonly FaultCode[];
  /** Further arguments of the probe. */
  readonly args?: readonly string[];
}

const right = rightBehaviour();
const stripe = ["--profile", "stripe"];
/** Stripe's practice: no key is needed, misuse is 400, a 5xx is kept. */
export const stripeBehaviour: Partial<Behaviour> = {
  refuseKey: (why) => (why === "malformed" ? problem(400) : null),
  misuse: () => problem(400),
  keep: (reply) => reply,
};
/** ACP: the key is repeated on every answer. */
export const acpBehaviour: Partial<Behaviour> = {
  decorate: (reply, request) =>
    withHeaders(right.decorate(reply, request), { "idempotency-key": request.key }),
};
const acp = ["--profile", "acp"];
const optional = ["--key", "optional"];
export const failing = ["--failing-body", '{"amount":1,"fail":true}'];
const isDone = ({ status }: Reply) => status === 201;

function withHeaders(reply: Reply, headers: Readonly<Record<string, string>>): Reply {
  return { ...reply, headers: { ...reply.headers, ...headers } };
}

function without(reply: Reply, name: string): Reply {
  return {
    ...reply,
    headers: Object.fromEntries(Object.entries(reply.headers).filter(([each]) => each !== name)),
  };
}

function readQuoted(lines: readonly string[], read: (key: string) => KeyReading): KeyReading {
  const [line = ""] = lines;
  const quoted = lines.length === 1 ? /^"([^"]+)"$/u.exec(line)?.[1] : undefined;
  return quoted === undefined ? right.readKey(lines) : read(quoted);
}

function mapKey(change: (key: string) => string): Partial<Behaviour> {
  return {
    readKey(lines) {
      const reading = right.readKey(lines);
      return "key" in reading ? { key: change(reading.key) } : reading;
    },
  };
}

const replays: readonly Wrong[] = [
  { name: "stores nothing", behaviour: { keep: () => null }, finds: ["ran-twice"] },
  {
    name: "refuses a finished duplicate",
    behaviour: { replay: () => problem(403) },
    finds: ["retry-refused"],
  },
  {
    name: "answers a finished duplicate with 500",
    behaviour: { replay: () => problem(500) },
    finds: ["retry-failed"],
  },
  {
    name: "replays with 200",
    behaviour: { replay: (kept) => ({ ...(right.replay(kept) as Reply), status: 200 }) },
    finds: ["replay-status"],
  },
  {
    name: "reformats the stored JSON",
    behaviour: { replay: (kept) => ({ ...kept, body: JSON.stringify(JSON.parse(kept.body), null, 1) }) },
    finds: ["replay-body"],
  },
  {
    name: "replays without a body",
    behaviour: { replay: (kept) => ({ ...kept, body: "" }) },
    finds: ["replay-body"],
  },
  {
    name: "replays without Location",
    behaviour: { replay: (kept) => without(kept, "location") },
    finds: ["replay-headers"],
  },
  {
    name: "replays the cookie",
    behaviour: {
      decorate: (reply) => withHeaders(reply, { "set-cookie": `visit=${reply.headers.location}` }),
    },
    finds: ["replay-cookie"],
  },
  {
    name: "does not mark replays",
    behaviour: { ...stripeBehaviour, replay: (kept) => kept },
    args: stripe,
    finds: ["replay-unmarked"],
  },
  {
    name: "marks first answers",
    behaviour: {
      decorate: (reply, request) =>
        withHeaders(right.decorate(reply, request), { "idempotent-replayed": "true" }),
    },
    finds: ["first-marked"],
  },
  {
    name: "puts a new id into every body",
    behaviour: {
      decorate: (reply) => ({
        ...reply,
        body: JSON.stringify({ request: randomUUID(), ...JSON.parse(reply.body) }),
      }),
    },
    finds: ["replay-body"],
  },
  { name: "does not echo the key", behaviour: {}, args: acp, finds: ["key-not-echoed"] },
];

const bodies: readonly Wrong[] = [
  { name: "does not compare bodies", behaviour: { fingerprint: () => "" }, finds: ["misuse-replayed"] },
  {
    name: "includes the body in the key",
    behaviour: { scope: (request) => `${right.scope(request)} ${request.body}` },
    finds: ["misuse-ran", "misuse-race-ran"],
  },
  { name: "answers misuse with 400", behaviour: { misuse: () => problem(400) }, finds: ["misuse-status"] },
  { name: "answers misuse with 409", behaviour: { misuse: () => problem(409) }, finds: ["misuse-status"] },
  { name: "answers misuse with 500", behaviour: { misuse: () => problem(500) }, finds: ["misuse-failed"] },
  {
    name: "stores the body of the misuse",
    behaviour: {
      afterMisuse(entries, scope, request) {
        const entry = entries.get(scope);
        if (entry?.reply) entries.set(scope, { ...entry, fingerprint: right.fingerprint(request) });
      },
    },
    finds: ["misuse-overwrote"],
  },
  {
    name: "forgets the key on misuse",
    behaviour: { afterMisuse: (entries, scope) => entries.delete(scope) },
    finds: ["misuse-overwrote", "misuse-race-ran"],
  },
];

const racing: readonly Wrong[] = [
  {
    name: "looks a key up and reserves it in a second step",
    behaviour: { betweenLookAndReserve: (lookUps, key) => lookUps.second(key) },
    finds: ["race-ran-twice", "misuse-race-ran"],
  },
  {
    name: "answers a running duplicate with 503",
    behaviour: { inProgress: () => problem(503) },
    finds: ["race-failed"],
  },
  {
    name: "answers a running duplicate with 400",
    behaviour: { inProgress: () => problem(400) },
    finds: ["race-status"],
  },
  {
    name: "never frees a key that had duplicates",
    behaviour: {
      keep: (reply, request, lookUps) => (lookUps > 1 ? "running" : right.keep(reply, request, 0)),
    },
    finds: ["race-stuck"],
  },
  {
    name: "sends no Retry-After",
    behaviour: { ...acpBehaviour, inProgress: () => problem(409) },
    args: acp,
    finds: ["race-no-retry-after"],
  },
];

const cuts: readonly Wrong[] = [
  {
    name: "does not store the answer if the client has hung up",
    behaviour: { keep: (reply, request) => (request.isGone() ? null : right.keep(reply, request, 0)) },
    args: ["--count", "{url}/effects", "--count-pointer", "/effects"],
    finds: ["cut-ran-twice"],
  },
  {
    name: "leaves the key reserved when the client hangs up",
    behaviour: { keep: (reply, request) => (request.isGone() ? "running" : right.keep(reply, request, 0)) },
    finds: ["cut-stuck"],
  },
  {
    name: "reserves the key of a request that never arrives completely",
    behaviour: { reservesEarly: true },
    finds: ["cut-stuck"],
  },
  {
    name: "stores a failure when the client hangs up",
    behaviour: {
      keep: (reply, request) => (request.isGone() ? problem(500) : right.keep(reply, request, 0)),
    },
    finds: ["cut-failed"],
  },
];

const callers: readonly Wrong[] = [
  {
    name: "has one scope for all tenants",
    behaviour: { scope: ({ path, key }) => `${path} ${key}` },
    finds: ["tenant-leak"],
  },
  {
    name: "includes the tenant in the fingerprint instead of the scope",
    behaviour: {
      scope: ({ path, key }) => `${path} ${key}`,
      fingerprint: (request) => `${request.tenant} ${right.fingerprint(request)}`,
    },
    finds: ["tenant-collision"],
  },
  {
    name: "overwrites another tenant's answer",
    behaviour: {
      scope: ({ path, key }) => `${path} ${key}`,
      isOtherTenants: ({ tenant }, request) => tenant !== request.tenant,
    },
    finds: ["tenant-overwrote"],
  },
  {
    name: "has one scope for all routes",
    behaviour: { scope: ({ tenant, key }) => `${tenant} ${key}` },
    finds: ["route-leak"],
  },
];

const accepts = (what: "missing" | "malformed" | "empty"): Partial<Behaviour> => ({
  refuseKey: (why) => (why === what ? null : right.refuseKey(why)),
});
const refuses = (what: "missing" | "malformed" | "empty", status: number): Partial<Behaviour> => ({
  refuseKey: (why) => (why === what ? problem(status) : right.refuseKey(why)),
});

const keys: readonly Wrong[] = [
  { name: "accepts a missing key", behaviour: accepts("missing"), finds: ["missing-key-accepted"] },
  { name: "requires a key", behaviour: {}, args: optional, finds: ["missing-key-refused"] },
  {
    name: "answers a missing key with 403",
    behaviour: refuses("missing", 403),
    finds: ["missing-key-status"],
  },
  {
    name: "answers a missing key with 500",
    behaviour: refuses("missing", 500),
    finds: ["missing-key-failed"],
  },
  {
    name: "treats all requests without a key as one",
    behaviour: {
      readKey: (lines) => (lines.length === 0 ? { key: "none" } : right.readKey(lines)),
      fingerprint: () => "",
    },
    args: [...optional, "--skip-check", "other-body", "--skip-check", "race-other-body"],
    finds: ["no-key-shared"],
  },
  {
    name: "treats an empty key as a valid key",
    behaviour: { readKey: (lines) => (lines[0] === "" ? { key: "empty" } : right.readKey(lines)) },
    finds: ["no-key-shared"],
  },
  {
    name: "treats an empty key as a missing one",
    behaviour: accepts("empty"),
    finds: ["empty-key-accepted"],
  },
  { name: "accepts a malformed key", behaviour: accepts("malformed"), finds: ["malformed-key-accepted"] },
  {
    name: "answers a malformed key with 422",
    behaviour: refuses("malformed", 422),
    finds: ["malformed-key-status"],
  },
  {
    name: "answers a malformed key with 500",
    behaviour: refuses("malformed", 500),
    finds: ["malformed-key-failed"],
  },
  { name: "hangs up on a malformed key", behaviour: { hangsUpOnMalformed: true }, finds: ["no-answer"] },
  {
    name: "ignores the case of keys",
    behaviour: mapKey((key) => key.toLowerCase()),
    finds: ["key-case-folded"],
  },
  {
    name: "truncates keys to 255 characters",
    behaviour: mapKey((key) => key.slice(0, 255)),
    finds: ["key-truncated"],
  },
  {
    name: "rejects quoted keys",
    behaviour: { readKey: (lines) => readQuoted(lines, () => ({ refused: "malformed" })) },
    finds: ["quoted-key-refused"],
  },
  {
    name: "treats a quoted key as another key",
    behaviour: { readKey: (lines) => readQuoted(lines, () => ({ key: randomUUID() })) },
    finds: ["quoted-key-ran-twice"],
  },
  {
    name: "rejects keys without quotes",
    behaviour: {
      ...stripeBehaviour,
      readKey: (lines) =>
        lines.length === 1 && lines[0] !== "" && !lines[0]?.startsWith('"')
          ? { refused: "malformed" }
          : right.readKey(lines),
    },
    args: stripe,
    finds: ["bare-key-refused"],
  },
  {
    name: "treats a key without quotes as another key",
    behaviour: {
      readKey(lines) {
        const reading = right.readKey(lines);
        return "key" in reading && !lines[0]?.startsWith('"') ? { key: randomUUID() } : reading;
      },
    },
    args: ["--key-syntax", "quoted"],
    finds: ["bare-key-ran-twice"],
  },
];

const errors: readonly Wrong[] = [
  {
    name: "leaves the key reserved after a 500",
    behaviour: {
      keep: (reply) => (isDone(reply) ? reply : "running"),
      inProgress: () => problem(409, { "retry-after": "1" }),
    },
    args: failing,
    finds: ["error-stuck"],
  },
  {
    name: "replays a 500 with 200",
    behaviour: { keep: (reply) => (isDone(reply) ? reply : { ...reply, status: 200 }) },
    args: failing,
    finds: ["error-as-success"],
  },
  {
    name: "answers 500 after executing the request",
    behaviour: { failsAfterEffect: true },
    args: [...failing, "--count", "{url}/effects", "--count-pointer", "/effects"],
    finds: ["error-ran-twice"],
  },
  {
    name: "does not store a 500",
    behaviour: { ...stripeBehaviour, keep: right.keep },
    args: [...stripe, ...failing],
    finds: ["error-not-replayed"],
  },
  {
    name: "stores a 500",
    behaviour: { ...acpBehaviour, keep: (reply) => reply },
    args: [...acp, ...failing],
    finds: ["error-replayed"],
  },
];

export const wrongServers: readonly Wrong[] = [
  ...replays,
  ...bodies,
  ...racing,
  ...cuts,
  ...callers,
  ...keys,
  ...errors,
];
