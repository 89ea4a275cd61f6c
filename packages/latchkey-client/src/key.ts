import { hex } from "./hex.ts";
import { type Ports, systemPorts } from "./ports.ts";

/** A UUID version 7 (RFC 9562): it starts with the time, so that the newest keys are adjacent in a server's index. */
export function newKey({ clock, random }: Pick<Ports, "clock" | "random"> = systemPorts): string {
  const time = hex(Math.floor(clock.wallMs()), 12);
  const drawn = Array.from(random.bytes(10), (byte, index) =>
    // Version 7 in the upper half of the first, variant 10 in the upper bits of the third.
    hex(index === 0 ? 0x70 | (byte & 15) : index === 2 ? 0x80 | (byte & 63) : byte, 2),
  );
  return (time + drawn.join("")).replace(/(.{8})(.{4})(.{4})(.{4})/u, "$1-$2-$3-$4-");
}

/**
 * How the key is written in its header. `bare`: unchanged. `quoted`: a String of RFC 9651, as
 * draft-ietf-httpapi-idempotency-key-header-07 requires.
 */
export type KeySyntax = "bare" | "quoted";

export function formatKey(key: string, syntax: KeySyntax): string {
  return syntax === "quoted" ? `"${key.replace(/["\\]/gu, "\\$&")}"` : key;
}

/** A key that the caller has set, in either syntax. Null: none. */
export function keyIn(headers: Headers, header: string): string | null {
  const value = headers.get(header);
  return value?.startsWith('"') ? value.slice(1, -1).replace(/\\(.)/gu, "$1") : value;
}
