/** A well-behaved client: it retries with the same key, when the answer says so. */
import { setTimeout as pause } from "node:timers/promises";

export interface Purchase {
  readonly label: string;
  readonly order: string;
  readonly key: string;
  /** `/charges`, or the same without Latchkey. */
  readonly path: string;
}

export interface Got {
  readonly status: number;
  readonly replayed: boolean;
  readonly retryAfterSeconds: number | null;
  readonly body: string;
}

/** Null: the connection was lost, so the client does not know what happened. */
export async function buy(appUrl: string, { order, key, path }: Purchase): Promise<Got | null> {
  try {
    const response = await fetch(appUrl + path, {
      method: "POST",
      headers: {
        authorization: "Bearer demo-token",
        "content-type": "application/json",
        "idempotency-key": key,
      },
      body: JSON.stringify({ amount: 500, currency: "EUR", order }),
    });
    const { status, headers } = response;
    const after = headers.get("retry-after");
    return {
      status,
      replayed: headers.get("idempotent-replayed") === "true",
      retryAfterSeconds: after === null ? null : Number(after),
      body: await response.text(),
    };
  } catch {
    return null;
  }
}

const triesMax = 15;

/** Retries as long as the answer says when to retry. */
export async function buyPatiently(
  appUrl: string,
  purchase: Purchase,
  told: (got: Got) => void,
): Promise<Got | null> {
  for (let tries = 1; ; tries += 1) {
    const got = await buy(appUrl, purchase);
    if (got === null) return null;
    told(got);
    if (got.retryAfterSeconds === null || tries === triesMax) return got;
    await pause(got.retryAfterSeconds * 1_000);
  }
}
