// Character classes by code. NaN (what charCodeAt gives past the end) belongs to none of them.

export function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}

export function isLowerLetter(code: number): boolean {
  return code >= 0x61 && code <= 0x7a;
}

export function isLetter(code: number): boolean {
  return isLowerLetter(code) || (code >= 0x41 && code <= 0x5a);
}

/** Space to tilde: what a String of RFC 9651 may contain. */
export function isPrintable(code: number): boolean {
  return code >= 0x20 && code <= 0x7e;
}

/** Exclamation mark to tilde. */
export function isVisible(code: number): boolean {
  return code >= 0x21 && code <= 0x7e;
}

/** `tchar` of RFC 9110, section 5.6.2. */
export function isTokenCharacter(code: number): boolean {
  return (
    isLetter(code) ||
    isDigit(code) ||
    (isVisible(code) && "!#$%&'*+-.^_`|~".includes(String.fromCharCode(code)))
  );
}
