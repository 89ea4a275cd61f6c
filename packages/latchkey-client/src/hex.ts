/** A whole number in hexadecimal, with zeros in front up to `digits`. */
export function hex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, "0");
}
