/** Keyboard shortcuts. No single key does something that cannot be undone. */
export function listenToKeys(): void {
  document.addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    const isTyping = target.matches("input:not([type=checkbox]):not([type=radio]), textarea, select");
    if (event.key === "Escape") {
      if (isTyping) target.blur();
      else if (document.querySelector("dialog[open]") === null) {
        document.querySelector<HTMLElement>("[data-close-panel]")?.click();
      }
    }
    if (isTyping || event.metaKey || event.ctrlKey || event.altKey) return;
    if (event.key === "/") {
      event.preventDefault();
      document.getElementById("find")?.focus();
    }
    if (event.key === "s") document.querySelector<HTMLElement>('input[name="outcome"]')?.focus();
    const rows = [...document.querySelectorAll<HTMLElement>("tbody tr[tabindex]")];
    const at = rows.indexOf(document.activeElement as HTMLElement);
    if (event.key === "j") rows[Math.min(rows.length - 1, at + 1)]?.focus();
    if (event.key === "k") rows[Math.max(0, at - 1)]?.focus();
    if (event.key === "Enter" && at >= 0) rows[at]?.querySelector("a")?.click();
  });
}
