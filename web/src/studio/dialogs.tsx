/** Questions that come before a change: which kind, into what, with a preview of the result. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ExtraKey, Name, Swatch } from "../bits";
import { count, number, percent, shownName } from "../words";
import { useLive, useStudio, type Studio } from "./model";
import { Preview } from "./samples";
import { get, post, type Details, type MergePreview, type SplitPreview } from "./server";

export function Dialogs(): JSX.Element | null {
  const dialog = useLive((state) => state.dialog);
  const studio = useStudio();
  if (!dialog) return null;
  if ("place" in dialog && !studio.report.categories[dialog.place]) return null;
  switch (dialog.name) {
    case "merge":
      return <Merge place={dialog.place} other={dialog.other} />;
    case "split":
      return <Split place={dialog.place} />;
    case "dissolve":
      return <Dissolve place={dialog.place} />;
    case "create":
      return <Create />;
    case "move":
      return <Move answer={dialog.choose} />;
    case "sample":
      return <OneSample row={dialog.row} />;
    case "keys":
      return <KeyHelp />;
  }
}

/** A dialog that holds the focus; Escape closes it. */
function Frame({ title, children, wide }: { title: ComponentChildren; children: ComponentChildren; wide?: boolean }): JSX.Element {
  const studio = useStudio();
  const element = useRef<HTMLDialogElement>(null);
  const close = (): void => studio.live.set({ dialog: null });
  useLayoutEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    const dialog = element.current;
    dialog?.showModal();
    dialog?.querySelector<HTMLElement>("[data-first]")?.focus();
    return () => {
      if (before?.isConnected) before.focus({ preventScroll: true });
    };
  }, []);
  return (
    <dialog
      ref={element}
      class={wide ? "wide" : undefined}
      aria-labelledby="dialog-heading"
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
      onClick={(event) => event.target === element.current && close()}
    >
      <div class="dialog">
        <header>
          <h2 id="dialog-heading">{title}</h2>
          <button type="button" class="quiet" aria-label="Close" onClick={close}>
            ✕
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}

/** A list of kinds to choose from, with a field to search it. */
function KindPicker({ but, choose }: { but: readonly number[]; choose: (place: number) => void }): JSX.Element {
  const studio = useStudio();
  const [words, setWords] = useState("");
  const [current, setCurrent] = useState(0);
  const wanted = words.toLowerCase().trim();
  const places = [...studio.listed("new", "", "size"), ...studio.listed("known", "", "size")].filter((place) => {
    const category = studio.category(place);
    return !but.includes(place) && `${shownName(category)}\n${category.key}`.toLowerCase().includes(wanted);
  });
  const stop = Math.min(current, places.length - 1);
  const key = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown") setCurrent(Math.min(stop + 1, places.length - 1));
    else if (event.key === "ArrowUp") setCurrent(Math.max(stop - 1, 0));
    else if (event.key === "Enter" && places[stop] !== undefined) choose(places[stop]);
    else return;
    event.preventDefault();
  };
  return (
    <div class="picker">
      <input
        data-first
        type="text"
        role="combobox"
        aria-expanded="true"
        aria-controls="picker-list"
        aria-activedescendant={places[stop] === undefined ? undefined : `pick-${places[stop]}`}
        aria-label="Find a kind"
        placeholder="Find a kind"
        value={words}
        onInput={(event) => {
          setWords(event.currentTarget.value);
          setCurrent(0);
        }}
        onKeyDown={key}
      />
      <ul id="picker-list" role="listbox" aria-label="Kinds">
        {places.map((place, index) => (
          <li
            key={place}
            id={`pick-${place}`}
            role="option"
            aria-selected={index === stop}
            data-pick={studio.category(place).key}
            onClick={() => choose(place)}
          >
            <Swatch place={place} />
            <Name category={studio.category(place)} />
            <ExtraKey place={place} />
            <span class="dim">{number(studio.category(place).size)}</span>
          </li>
        ))}
        {!places.length && <li class="dim">No kind is called so.</li>}
      </ul>
    </div>
  );
}

function Buttons({ words, ready, act, danger }: { words: string; ready: boolean; act: () => Promise<void>; danger?: boolean }): JSX.Element {
  const studio = useStudio();
  const [busy, setBusy] = useState(false);
  const go = (): void => {
    setBusy(true);
    void act().finally(() => setBusy(false));
  };
  return (
    <p class="dialog-buttons">
      <button type="button" class="quiet" onClick={() => studio.live.set({ dialog: null })}>
        Cancel
      </button>
      <button type="button" class={danger ? "strong danger" : "strong"} id="do-it" disabled={!ready || busy} onClick={go}>
        {words}
      </button>
    </p>
  );
}

/** What the server previews; asked again when `asked` changes. */
function usePreview<Answer>(path: string, asked: object | null): { preview: Answer | null; wrong: string } {
  const [state, setState] = useState<{ preview: Answer | null; wrong: string }>({ preview: null, wrong: "" });
  const key = JSON.stringify(asked);
  const n = useLive((state) => state.n);
  useEffect(() => {
    let current = true;
    setState({ preview: null, wrong: "" });
    if (!asked) return;
    post<Answer>(path, asked)
      .then((preview) => current && setState({ preview, wrong: "" }))
      .catch((error: Error) => current && setState({ preview: null, wrong: error.message }));
    return () => {
      current = false;
    };
  }, [path, key, n]);
  return state;
}

function Merge({ place, other }: { place: number; other: number | undefined }): JSX.Element {
  const studio = useStudio();
  const [chosen, setChosen] = useState<number | null>(other ?? null);
  const category = studio.category(place);
  const second = chosen === null ? null : studio.category(chosen);
  const kinds = second ? [category.key, second.key] : null;
  const { preview, wrong } = usePreview<MergePreview>("/api/preview/merge", kinds && { kinds });
  const act = async (): Promise<void> => {
    if (!preview || !kinds) return;
    const content = { kinds, into: preview.into, known: preview.known > 1 };
    if (await studio.do("merge", content, `Merged into ${preview.name}`)) studio.live.set({ dialog: null });
  };
  return (
    <Frame
      wide
      title={
        <>
          Merge <Name category={category} /> with …
        </>
      }
    >
      {chosen === null || !second ? (
        <KindPicker but={[place]} choose={setChosen} />
      ) : (
        <>
          <p>
            <Name category={category} /> and <Name category={second} />{" "}
            <button type="button" class="more" onClick={() => setChosen(null)}>
              choose another
            </button>
          </p>
          {wrong && <p class="wrong">{wrong}</p>}
          {!preview && !wrong && <p class="dim">Looking …</p>}
          {preview && (
            <div class="preview" id="preview">
              <p>
                become one kind
                {preview.is_named ? (
                  <>
                    {" "}
                    called <strong dir="auto">{preview.name}</strong>
                  </>
                ) : (
                  <> ({preview.name})</>
                )}{" "}
                with {count(preview.size, studio.report.unit)}
                {preview.labelled > 0 && `, ${number(preview.labelled)} of them labelled`}. Their middles have a similarity of{" "}
                {preview.similarity.toFixed(2)}.
              </p>
              {preview.known > 1 && <p class="wrong">Both are known: your labels say that they differ.</p>}
              {preview.parts.map(({ key, typical }) => (
                <section key={key} class="part">
                  <h4>{partName(studio, key)}</h4>
                  <Preview rows={typical} />
                </section>
              ))}
            </div>
          )}
          <Buttons words="Merge" ready={!!preview} act={act} />
        </>
      )}
    </Frame>
  );
}

function partName(studio: Studio, key: string): string {
  const place = studio.placeOfKey(key);
  return place === undefined ? key : shownName(studio.category(place));
}

function Split({ place }: { place: number }): JSX.Element {
  const studio = useStudio();
  const category = studio.category(place);
  const [k, setK] = useState<number | null>(null);
  const { preview, wrong } = usePreview<SplitPreview>("/api/preview/split", { kind: category.key, k });
  const act = async (): Promise<void> => {
    if (!preview) return;
    const content = { kind: category.key, preview: preview.preview };
    if (await studio.do("split", content, `Split into ${preview.parts.length}`)) studio.live.set({ dialog: null });
  };
  return (
    <Frame
      wide
      title={
        <>
          Split <Name category={category} />
        </>
      }
    >
      <p class="row">
        <label>
          Into{" "}
          <select
            data-first
            value={k ?? ""}
            aria-label="Into how many kinds"
            onChange={(event) => setK(event.currentTarget.value ? Number(event.currentTarget.value) : null)}
          >
            <option value="">as many as are best apart</option>
            {Array.from({ length: Math.min(9, category.size - 1) }, (_, i) => i + 2).map((n) => (
              <option key={n} value={n}>
                {n}
              </option>
            ))}
          </select>
        </label>
      </p>
      {wrong && <p class="wrong">{wrong}</p>}
      {!preview && !wrong && <p class="dim">Looking …</p>}
      {preview && (
        <div class="preview" id="preview">
          <p class="dim">
            {number(preview.parts.length)} parts{separationWords(preview.separation)}. The largest keeps the name.
          </p>
          {preview.parts.map((part, i) => (
            <section key={i} class="part">
              <h4>
                Part {i + 1}: {count(part.size, studio.report.unit)}
              </h4>
              <Preview rows={part.typical} />
            </section>
          ))}
        </div>
      )}
      <Buttons words={preview ? `Split into ${preview.parts.length}` : "Split"} ready={!!preview} act={act} />
    </Frame>
  );
}

function separationWords(separation: number): string {
  return separation >= 0.25 ? ", well apart" : separation >= 0.1 ? ", somewhat apart" : ", hardly apart: it may be one kind";
}

function Dissolve({ place }: { place: number }): JSX.Element {
  const studio = useStudio();
  const category = studio.category(place);
  const act = async (): Promise<void> => {
    const content = { kind: category.key, known: category.kind === "known" };
    if (await studio.do("dissolve", content, `Dissolved ${shownName(category)}`)) studio.live.set({ dialog: null });
  };
  return (
    <Frame
      title={
        <>
          Dissolve <Name category={category} />?
        </>
      }
    >
      <p>
        It is then no kind any more. Each of its {count(category.size, studio.report.unit)} goes to the kind that is next most
        probable.
      </p>
      {category.kind === "known" && (
        <p class="wrong">It is known: the labels of its {number(category.labelled)} labelled {studio.report.unit[1]} no longer count.</p>
      )}
      <Buttons words="Dissolve" ready danger act={act} />
    </Frame>
  );
}

function Create(): JSX.Element {
  const studio = useStudio();
  const selection = useLive((state) => state.selection);
  const [name, setName] = useState("");
  const act = async (): Promise<void> => {
    const content = { seen: studio.seen(selection), name: name.trim() || null };
    if (!(await studio.do("create", content, "New kind made"))) return;
    studio.live.set({ dialog: null });
    studio.select([]);
  };
  return (
    <Frame title={`New kind of ${studio.counted(selection.size)}`}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void act();
        }}
      >
        <label class="field">
          Name <span class="dim">(may be left empty)</span>
          <input data-first dir="auto" maxLength={200} value={name} onInput={(event) => setName(event.currentTarget.value)} />
        </label>
      </form>
      <Preview rows={[...selection].slice(0, 12)} />
      <Buttons words="Make it" ready={selection.size > 0} act={act} />
    </Frame>
  );
}

/** Where the selected samples go; or, with `answer`, where the one goes that a question is about. */
function Move({ answer }: { answer: ((place: number | "new") => void) | undefined }): JSX.Element {
  const studio = useStudio();
  const selection = useLive((state) => state.selection);
  const choose = (place: number | "new"): void => {
    studio.live.set({ dialog: null });
    if (answer) answer(place);
    else if (place !== "new") void studio.move(selection, place);
  };
  return (
    <Frame title={answer ? "Where does it belong?" : `Move ${studio.counted(selection.size)} to …`}>
      <KindPicker but={[]} choose={choose} />
      {answer && (
        <p class="dialog-buttons">
          <button type="button" class="quiet" onClick={() => choose("new")}>
            To none of them: make a new kind
          </button>
        </p>
      )}
    </Frame>
  );
}

function OneSample({ row }: { row: number }): JSX.Element {
  const studio = useStudio();
  const n = useLive((state) => state.n);
  const [details, setDetails] = useState<Details | null>(null);
  useEffect(() => {
    get<Details>(`/api/samples/${row}`).then(setDetails, (error: unknown) => studio.fail(error));
  }, [row, n]);
  const place = studio.placeOf(row);
  const suspect = details?.suspect && studio.placeOfSlot(details.suspect.slot);
  const go = (dialog: "move" | "create"): void => {
    studio.select([row]);
    studio.live.set({ dialog: { name: dialog } });
  };
  const like = (): void => {
    studio.live.set({ dialog: null });
    void studio.list("Like this one", { like: [row] });
  };
  return (
    <Frame wide title={<bdi>{details?.id ?? "…"}</bdi>}>
      <div class="one-sample">
        {studio.sample(row).picture && (
          <img
            class={studio.pictures.pixelated ? "picture pixelated" : "photo"}
            src={`/photo/${row}`}
            alt={details?.id ?? ""}
          />
        )}
        <div>
          {details?.text != null && (
            <p class="whole-text" dir="auto">
              {details.text || "(empty)"}
            </p>
          )}
          <p class="tip-kind">
            <Swatch place={place} /> <Name category={studio.category(place)} />
          </p>
          {details && (
            <p class="dim">
              {details.confirmed ? "confirmed by you" : details.given ? "labelled" : `${percent(details.confidence)} sure`},{" "}
              {percent(details.novelty)} new
            </p>
          )}
          {details?.suspect && suspect !== undefined && suspect !== null && (
            <p class="wrong">
              The label looks wrong: it looks more like <Name category={studio.category(suspect)} /> (
              {percent(details.suspect.probability)}).
            </p>
          )}
        </div>
      </div>
      <p class="dialog-buttons">
        <button type="button" class="quiet" data-first disabled={details?.confirmed} onClick={() => void studio.confirm([row])}>
          Confirm
        </button>
        <button type="button" class="quiet" onClick={() => go("move")}>
          Move to …
        </button>
        <button type="button" class="quiet" onClick={() => go("create")}>
          New kind …
        </button>
        <button type="button" class="quiet" onClick={like}>
          More like this
        </button>
      </p>
    </Frame>
  );
}

const KEYS: readonly [string, string][] = [
  ["Ctrl+Z, Ctrl+Shift+Z", "undo, redo"],
  ["/", "search"],
  ["Arrows, Space, Enter", "in a list: go, select, open; with Shift: a range"],
  ["M, C", "move the selected, confirm them"],
  ["L", "lasso on the map; Shift and drag does the same"],
  ["Escape", "clear the selection, close the list"],
  ["Y, N, 1 … 9, S", "in the review: yes, no, another kind, skip"],
];

function KeyHelp(): JSX.Element {
  return (
    <Frame title="Keys">
      <dl class="key-list">
        {KEYS.map(([keys, words]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{words}</dd>
          </div>
        ))}
      </dl>
    </Frame>
  );
}
