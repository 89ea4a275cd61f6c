/* Runs before the first paint: the chosen theme, else the system's. */
(() => {
  let saved = null;
  try {
    saved = localStorage.getItem("latchkey-theme");
  } catch {
    /* storage may be off */
  }
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.theme = saved === "dark" || saved === "light" ? saved : system;
})();
