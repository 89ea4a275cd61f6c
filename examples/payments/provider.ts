/**
 * A simulated payment provider: a process of its own, with a ledger of its own, that can misbehave. It honours
 * `Idempotency-Key` as the large ones do: a repetition gets the first answer and charges nothing.
 *
 * Variables: `PROVIDER_PORT` (default 4000; 0: a free one), `PROVIDER_LEDGER` (default `.latchkey/provider.jsonl`). On
 * stdout it writes JSON lines: `{"ready":true,"url":…}`, then one for each signal.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import express, { type Express, type Request, type Response } from "express";
import { type Charge, type ChargeRequest, type Ledger, openLedger } from "./provider-ledger.ts";
import { type Behaviour, behaviourOf, type Mode, modes, wellBehaved } from "./provider-modes.ts";
import { wholeNumber } from "./settings.ts";

/** The signals that it writes to stdout. */
type Signal = ({ readonly signal: "charged" } & Charge) | { readonly signal: "waiting" };

interface Reply {
  readonly status: number;
  readonly body: unknown;
  readonly replayed?: boolean;
}

function createProvider(ledger: Ledger, tell: (signal: Signal) => void): Express {
  let behaviour = wellBehaved;
  const app = express();
  app.use(express.json());

  app.post("/charges", async (req, res) => {
    const now = behaviourOf({ mode: req.get("x-provider-mode") }, behaviour);
    if (now === null) return refuseMode(res);
    await answerCharge(now, ledger, req, res, tell);
  });

  /** All charges, or those of one reference. */
  app.get("/charges", ({ query: { reference } }, res) => {
    res.json(chargesOf(ledger).filter((charge) => reference === undefined || charge.reference === reference));
  });

  /** Atomic: from this answer on, the reference either has been charged or never will be. */
  app.post("/charges/close", (req, res) => {
    const reference: unknown = req.body?.reference;
    if (!isText(reference)) return void res.status(400).json({ error: "send a reference" });
    const happened = chargesOf(ledger).find((charge) => charge.reference === reference);
    if (happened !== undefined) return void res.json({ happened });
    if (!isClosed(ledger, reference)) ledger.append({ did: "close", reference });
    res.json({ closed: true });
  });

  app.put("/mode", (req, res) => {
    // Otherwise a client that was busy for 5 s may send on a connection that Node is about to close.
    res.set("connection", "close");
    const next = behaviourOf(req.body, behaviour);
    if (next === null) return refuseMode(res);
    behaviour = next;
    res.json(behaviour);
  });

  return app;
}

async function answerCharge(
  { mode, slowMs }: Behaviour,
  ledger: Ledger,
  req: Request,
  res: Response,
  tell: (signal: Signal) => void,
): Promise<void> {
  if (mode === "down") return send(res, { status: 503, body: { error: "down" } });
  if (mode === "slow") {
    tell({ signal: "waiting" });
    await pause(slowMs);
  }
  const reply = decide(ledger, req, mode, tell);
  if (mode !== "time-out-after-charging") send(res, reply);
}

/** Looks up, decides and writes without a pause in between: two requests with one key cannot both charge. */
function decide(ledger: Ledger, req: Request, mode: Mode, tell: (signal: Signal) => void): Reply {
  const key = req.get("idempotency-key") ?? null;
  const request = requestOf(req.body, key);
  if (request === null)
    return { status: 400, body: { error: "send amount, and maybe currency, description and reference" } };
  const before = key === null || mode === "forgetful" ? null : repeat(ledger, key, request);
  if (before !== null) return before;
  if (request.reference !== null && isClosed(ledger, request.reference)) {
    return { status: 409, body: { error: "this reference is closed" } };
  }
  if (mode === "refuse") {
    ledger.append({ did: "refuse", key, request });
    return refusal;
  }
  const charge = { id: `ch_${chargesOf(ledger).length + 1}`, ...request };
  ledger.append({ did: "charge", key, charge });
  tell({ signal: "charged", ...charge });
  return { status: 201, body: charge };
}

const refusal: Reply = { status: 402, body: { error: "card declined" } };

/** The first answer to this key; null: it is new. */
function repeat(ledger: Ledger, key: string, request: ChargeRequest): Reply | null {
  for (const entry of ledger.entries) {
    if (entry.did === "close" || entry.key !== key) continue;
    const { id, ...first } = entry.did === "charge" ? entry.charge : { id: null, ...entry.request };
    if (!isDeepStrictEqual(first, request)) {
      return { status: 422, body: { error: "this key was used for another charge" } };
    }
    return { ...(id === null ? refusal : { status: 201, body: { id, ...first } }), replayed: true };
  }
  return null;
}

function chargesOf(ledger: Ledger): readonly Charge[] {
  return ledger.entries.flatMap((entry) => (entry.did === "charge" ? [entry.charge] : []));
}

function isClosed(ledger: Ledger, reference: string): boolean {
  return ledger.entries.some((entry) => entry.did === "close" && entry.reference === reference);
}

function requestOf(body: unknown, key: string | null): ChargeRequest | null {
  const {
    amount,
    currency = "EUR",
    description = "charge",
    reference = key,
  } = (body ?? {}) as Record<string, unknown>;
  if (!Number.isSafeInteger(amount) || Number(amount) <= 0) return null;
  if (!isText(currency) || !isText(description)) return null;
  if (reference !== null && !isText(reference)) return null;
  return { amount: Number(amount), currency, description, reference };
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

function send(res: Response, { status, body, replayed = false }: Reply): void {
  if (replayed) res.set("idempotent-replayed", "true");
  res.status(status).json(body);
}

function refuseMode(res: Response): void {
  res.status(400).json({ error: "no such mode", modes });
}

const ledger = openLedger(process.env.PROVIDER_LEDGER ?? ".latchkey/provider.jsonl");
const say = (line: object) => console.log(JSON.stringify(line));
const server = createServer(createProvider(ledger, say));
server.on("error", (error) => {
  console.error(`Cannot listen: ${error.message}`);
  process.exit(1);
});
server.listen(wholeNumber(process.env, "PROVIDER_PORT", 4_000, 0, 65_535), "127.0.0.1", () => {
  const { port } = server.address() as AddressInfo;
  say({ ready: true, url: `http://127.0.0.1:${port}` });
});

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => {
    server.close(() => ledger.close());
    server.closeAllConnections();
  });
}
