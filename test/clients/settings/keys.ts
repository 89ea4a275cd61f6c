/** A UUIDv7: the time comes first, so that the newest keys lie together in the server's index. */
export function newKey(now = Date.now()): string {
  const random = crypto.getRandomValues(new Uint8Array(10));
  const hex = [...random].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const time = now.toString(16).padStart(12, "0");
  const variant = ((Number.parseInt(hex.slice(3, 4), 16) & 3) | 8).toString(16);
  return `${time.slice(0, 8)}-${time.slice(8)}-7${hex.slice(0, 3)}-${variant}${hex.slice(4, 7)}-${hex.slice(8)}`;
}

/**
 * Sends one request until its answer is final, also over a reload of the page. `name` is new for every form. `isEarlier`: what
 * became of an earlier order was still open, and this is the answer to that one; then submit the new one.
 */
export async function submit(
  storage: Storage,
  name: string,
  order: object,
  send: (key: string, body: string) => Promise<Response>,
): Promise<{ response: Response; isEarlier: boolean }> {
  const wanted = JSON.stringify(order);
  const pending = storage.getItem(name) ?? JSON.stringify({ key: newKey(), body: wanted });
  storage.setItem(name, pending);
  const { key, body } = JSON.parse(pending) as { key: string; body: string };
  const response = await send(key, body);
  if (await isFinal(response)) storage.removeItem(name);
  return { response, isEarlier: body !== wanted };
}

/** After any other answer, and after none at all, it is not known what an earlier attempt did: the key has to be kept. */
async function isFinal(response: Response): Promise<boolean> {
  // Also where the service puts problems into an envelope of its own.
  if (response.headers.get("content-type")?.includes("json")) {
    const problem = (await response.clone().json()) as { safe_new_key?: unknown } | null;
    if (typeof problem?.safe_new_key === "boolean") return problem.safe_new_key;
  }
  return response.status < 500 && ![401, 403, 408, 409, 425, 429].includes(response.status);
}
