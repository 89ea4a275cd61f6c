/** A UUIDv7: the time comes first, so that the newest keys lie together in the server's index. */
export function newKey(now = Date.now()): string {
  const random = crypto.getRandomValues(new Uint8Array(10));
  const hex = [...random].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const time = now.toString(16).padStart(12, "0");
  const variant = ((Number.parseInt(hex.slice(3, 4), 16) & 3) | 8).toString(16);
  return `${time.slice(0, 8)}-${time.slice(8)}-7${hex.slice(0, 3)}-${variant}${hex.slice(4, 7)}-${hex.slice(8)}`;
}

/** Sends one request until its answer is final, also over a reload of the page. `name` is new for every form. */
export async function submit(
  storage: Storage,
  name: string,
  order: object,
  send: (key: string, body: string) => Promise<Response>,
): Promise<Response> {
  const kept = storage.getItem(name);
  const pending = kept ?? JSON.stringify({ key: newKey(), body: JSON.stringify(order) });
  storage.setItem(name, pending);
  const { key, body } = JSON.parse(pending) as { key: string; body: string };
  const response = await send(key, body);
  if (isFinal(response.status)) storage.removeItem(name);
  return response;
}

/** After any other, and after none at all, nobody knows what an attempt before it did: the key has to be kept. */
function isFinal(status: number): boolean {
  return status < 500 && ![401, 403, 408, 409, 425, 429].includes(status);
}
