/** Light or dark: as the system says, until a person presses the toggle; then as they said, on this device. */
import type { Theme } from "./colours";

const KEY = "newkinds-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

function remembered(): Theme | null {
  try {
    const theme = localStorage.getItem(KEY);
    return theme === "light" || theme === "dark" ? theme : null;
  } catch {
    return null; // a page from disk may not be allowed to store anything
  }
}

export function currentTheme(): Theme {
  const chosen = document.documentElement.dataset.theme;
  return chosen === "light" || chosen === "dark" ? chosen : system.matches ? "dark" : "light";
}

export function chooseTheme(theme: Theme): void {
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // the choice holds until the page is closed
  }
}

/** Applies what was chosen on this device before. */
export function restoreTheme(): void {
  const theme = remembered();
  if (theme) document.documentElement.dataset.theme = theme;
}

/** Calls back when the system changes; the returned function ends that. */
export function followSystem(changed: () => void): () => void {
  system.addEventListener("change", changed);
  return () => system.removeEventListener("change", changed);
}
