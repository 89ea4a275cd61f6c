/** Order by UTF-16 code units, free of any locale: for `sort`. */
export function compareCodeUnits(left: string, right: string): number {
  if (left === right) return 0;
  return left < right ? -1 : 1;
}
