/** The studio's page: the bar at the top, the map, the kinds, and what lies above them. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { chooseTheme, currentTheme } from "../theme";
import { count, number } from "../words";
import { Kinds } from "./cards";
import { Dialogs } from "./dialogs";
import { Drawer } from "./drawer";
import { stepWords, useLive, useStudio } from "./model";
import { SelectionBar } from "./selection";
import { Refit, RefitButton } from "./refit";
import { Review } from "./review";
import { MapSection } from "./stage";

export function StudioPage({ themeChanged }: { themeChanged: () => void }): JSX.Element {
  useLive((state) => state.n); // everything below is drawn anew when the run has changed
  const listing = useLive((state) => state.listing !== null);
  const view = useLive((state) => state.view);
  return (
    <div class={listing ? "studio with-list" : "studio"}>
      <Top themeChanged={themeChanged} />
      <Connection />
      <main>
        <Intro />
        <Refit />
        {view === "review" ? (
          <Review />
        ) : (
          <>
            <MapSection />
            <Kinds kind="new" />
            <Kinds kind="known" />
          </>
        )}
      </main>
      <Drawer />
      <SelectionBar />
      <Message />
      <Dialogs />
    </div>
  );
}

function Top({ themeChanged }: { themeChanged: () => void }): JSX.Element {
  const studio = useStudio();
  const undo = useLive((state) => state.undo);
  const redo = useLive((state) => state.redo);
  const [theme, setTheme] = useState(currentTheme());
  const other = theme === "dark" ? "light" : "dark";
  const toggle = (): void => {
    chooseTheme(other);
    setTheme(other);
    themeChanged();
  };
  return (
    <header class="bar-top">
      <h1>
        <bdi>{studio.report.title}</bdi>
      </h1>
      <Search />
      <div class="tools" role="toolbar" aria-label="Studio">
        <button
          type="button"
          id="undo"
          class="quiet"
          disabled={!undo}
          title={undo ? `Undo ${stepWords(undo)} (Ctrl+Z)` : "Nothing to undo"}
          aria-keyshortcuts="Control+Z"
          onClick={() => void studio.undo()}
        >
          Undo
        </button>
        <button
          type="button"
          id="redo"
          class="quiet"
          disabled={!redo}
          title={redo ? `Redo ${stepWords(redo)} (Ctrl+Shift+Z)` : "Nothing to redo"}
          aria-keyshortcuts="Control+Shift+Z"
          onClick={() => void studio.redo()}
        >
          Redo
        </button>
        <ReviewButton />
        <RefitButton />
        <Export />
        <button type="button" id="theme" class="quiet" aria-label={`Switch to the ${other} theme`} onClick={toggle}>
          {other === "dark" ? "Dark" : "Light"}
        </button>
        <button
          type="button"
          id="keys"
          class="quiet"
          aria-label="Keys"
          title="Keys (?)"
          aria-keyshortcuts="?"
          onClick={() => studio.live.set({ dialog: { name: "keys" } })}
        >
          ?
        </button>
      </div>
    </header>
  );
}

function ReviewButton(): JSX.Element {
  const studio = useStudio();
  const reviewing = useLive((state) => state.view === "review");
  return (
    <button
      type="button"
      id="review-button"
      class="quiet"
      aria-pressed={reviewing}
      title="Answer what is most worth your look"
      onClick={() => studio.live.set({ view: reviewing ? "kinds" : "review" })}
    >
      {reviewing ? "End review" : "Review"}
    </button>
  );
}

function Search(): JSX.Element {
  const studio = useStudio();
  const [words, setWords] = useState("");
  const search = (event: Event): void => {
    event.preventDefault();
    const wanted = words.trim();
    if (wanted) void studio.list(`“${wanted}”`, { words: wanted });
  };
  return (
    <form class="search" role="search" onSubmit={search}>
      <input
        id="search"
        type="search"
        maxLength={200}
        placeholder={`Search ${studio.report.unit[1]}`}
        aria-label={`Search ${studio.report.unit[1]}`}
        value={words}
        onInput={(event) => setWords(event.currentTarget.value)}
      />
    </form>
  );
}

function Export(): JSX.Element {
  return (
    <details class="menu" id="export">
      <summary class="quiet">Export</summary>
      <ul>
        {(["csv", "jsonl", "parquet"] as const).map((form) => (
          <li key={form}>
            <a href={`/api/export/${form}`} download onClick={(event) => event.currentTarget.closest("details")?.removeAttribute("open")}>
              {{ csv: "Table (.csv)", jsonl: "JSON lines (.jsonl)", parquet: "Parquet (.parquet)" }[form]}
            </a>
          </li>
        ))}
      </ul>
    </details>
  );
}

function Intro(): JSX.Element {
  const studio = useStudio();
  const labelled = useLive((state) => state.nLabelled);
  const confirmed = useLive((state) => state.nConfirmed);
  const { categories, n_samples, unit } = studio.report;
  const news = categories.filter(({ kind }) => kind === "new").length;
  return (
    <p class="facts-line dim">
      {count(n_samples, unit)}, {number(categories.length - news)} known and {number(news)} new kinds, {number(labelled)}{" "}
      labelled{confirmed > 0 && <>, of these {number(confirmed)} by you here</>}.
    </p>
  );
}

function Connection(): JSX.Element | null {
  const connection = useLive((state) => state.connection);
  if (connection === "on") return null;
  return (
    <p class="trouble" role="alert" id="connection">
      {connection === "lost"
        ? "The connection to the studio is lost; trying again. What you did is saved."
        : "This studio was ended or started anew: open the address that it printed last. What you did is saved."}
    </p>
  );
}

function Message(): JSX.Element {
  const studio = useStudio();
  const message = useLive((state) => state.message);
  return (
    <div class="message-place" aria-live={message?.wrong ? "assertive" : "polite"}>
      {message && (
        <p class={message.wrong ? "message wrong" : "message"} id="message">
          <span dir="auto">{message.text}</span>
          <button type="button" class="more" aria-label="Close this message" onClick={() => studio.live.set({ message: null })}>
            ✕
          </button>
        </p>
      )}
    </div>
  );
}
