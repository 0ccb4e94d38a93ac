/** What every page has: the slim navigation, the summary in words, the last lines. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { chooseTheme, currentTheme } from "./theme";
import { date } from "./words";

interface HeaderProps {
  title: string;
  /** Anchor and words. */
  sections: [string, string][];
  themeChanged?: () => void;
}

export function Header({ title, sections, themeChanged }: HeaderProps): JSX.Element {
  const [theme, setTheme] = useState(currentTheme());
  const other = theme === "dark" ? "light" : "dark";
  const toggle = (): void => {
    chooseTheme(other);
    setTheme(other);
    themeChanged?.();
  };
  return (
    <header class="top">
      <nav aria-label="Sections">
        <a class="home" href="#summary">
          <bdi>{title}</bdi>
        </a>
        <span class="sections">
          {sections.map(([anchor, words]) => (
            <a key={anchor} href={`#${anchor}`} onClick={() => unfold(anchor)}>
              {words}
            </a>
          ))}
        </span>
        <button type="button" id="theme" class="quiet" aria-label={`Switch to the ${other} theme`} onClick={toggle}>
          {other === "dark" ? "Dark" : "Light"}
        </button>
      </nav>
    </header>
  );
}

/** A link to a folded section opens it. */
function unfold(anchor: string): void {
  const section = document.getElementById(anchor);
  const details = section instanceof HTMLDetailsElement ? section : null;
  if (details) details.open = true;
}

export function Summary({ title, sentences }: { title: string; sentences: readonly string[] }): JSX.Element {
  const [first, ...rest] = sentences;
  return (
    <section id="summary">
      <h1>
        <bdi>{title}</bdi>
      </h1>
      <p class="lead" dir="auto">
        {first}
      </p>
      {rest.length > 0 && (
        <p class="rest" dir="auto">
          {rest.join(" ")}
        </p>
      )}
    </section>
  );
}

export function Footer({ newkinds, created }: { newkinds: string; created?: string }): JSX.Element {
  return (
    <footer class="end">
      Made by Newkinds {newkinds}
      {created && `; run of ${date(created)}`}. This page is one file and asks nothing of the network.
    </footer>
  );
}
