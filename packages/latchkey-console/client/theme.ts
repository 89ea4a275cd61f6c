import { signal } from "@preact/signals";

const root = document.documentElement;
export const isDark = signal(root.dataset.theme === "dark");

export function toggleTheme(): void {
  isDark.value = !isDark.value;
  root.dataset.theme = isDark.value ? "dark" : "light";
  try {
    localStorage.setItem("latchkey-theme", root.dataset.theme);
  } catch {
    // The choice is not stored: storage may be disabled.
  }
}
