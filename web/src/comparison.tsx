/** The comparison page: what changed between two runs on the same samples. */
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { LongText, Name, ShareBar, useFirst } from "./bits";
import { categoryColours, css, type Colour } from "./colours";
import type { Change, Comparison, Side } from "./data";
import { Flows } from "./flows";
import { Footer, Header, Summary } from "./frame";
import { currentTheme, followSystem } from "./theme";
import { count, date, isSuggested, number } from "./words";

/** In the order in which they are shown, with the heading of each. */
const TOPICS: readonly [string, string][] = [
  ["born", "Born"],
  ["gone", "Gone"],
  ["split", "Split"],
  ["merged", "Merged"],
  ["renamed", "Renamed"],
  ["grown", "Grown"],
  ["shrunk", "Shrunk"],
];

interface Colours {
  before: Colour[];
  after: Colour[];
}

export function ComparisonPage({ comparison }: { comparison: Comparison }): JSX.Element {
  const [theme, setTheme] = useState(currentTheme());
  useEffect(() => followSystem(() => setTheme(currentTheme())), []);
  const { before, after, changes, moved, n_moved } = comparison;
  const colours = useMemo<Colours>(
    () => ({ before: categoryColours(before.categories, theme), after: categoryColours(after.categories, theme) }),
    [theme],
  );
  const sections: [string, string][] = [["flows", "Flows"]];
  if (changes.length) sections.push(["changes", "Changes"]);
  if (moved.length) sections.push(["moved", "Moved"]);
  const topics = [
    ...TOPICS,
    ...[...new Set(changes.map(({ topic }) => topic))]
      .filter((topic) => !TOPICS.some(([known]) => known === topic))
      .map((topic): [string, string] => [topic, topic]),
  ];
  return (
    <>
      <Header title={comparison.title} sections={sections} themeChanged={() => setTheme(currentTheme())} />
      <main class="comparison">
        <Summary title={comparison.title} sentences={comparison.summary} />
        <Runs comparison={comparison} />
        {n_moved > 0 && (
          <section id="flows" aria-labelledby="flows-heading">
            <h2 id="flows-heading">Where samples went</h2>
            <Flows comparison={comparison} colours={colours} />
          </section>
        )}
        {changes.length > 0 && (
          <section id="changes" aria-labelledby="changes-heading">
            <h2 id="changes-heading">What changed</h2>
            {topics.map(([topic, words]) => (
              <Changes
                key={topic}
                words={words}
                changes={changes.filter((change) => change.topic === topic)}
                comparison={comparison}
                colours={colours}
              />
            ))}
          </section>
        )}
        {moved.length > 0 && <Moved comparison={comparison} colours={colours} />}
      </main>
      <Footer newkinds={comparison.newkinds} />
    </>
  );
}

function Runs({ comparison }: { comparison: Comparison }): JSX.Element {
  const { before, after, unit, n_only_before, n_only_after } = comparison;
  const sides: [string, Side, number][] = [
    ["Before", before, n_only_before],
    ["After", after, n_only_after],
  ];
  return (
    <ul class="runs">
      {sides.map(([words, side, only]) => {
        const known = side.categories.filter(({ kind }) => kind === "known").length;
        return (
          <li key={words}>
            <h3>
              {words}: <bdi>{side.run}</bdi>
            </h3>
            <p class="dim">
              {date(side.created)}. {count(side.n_samples, unit)}
              {only > 0 && `, ${number(only)} of them only here`}. {number(known)} known and{" "}
              {number(side.categories.length - known)} new kinds.
            </p>
          </li>
        );
      })}
    </ul>
  );
}

function Kind({ side, place, colours }: { side: Side; place: number; colours: readonly Colour[] }): JSX.Element | null {
  const category = side.categories[place];
  if (!category) return null;
  const title = isSuggested(category) ? `${category.key}; the name is a suggestion` : category.key;
  return (
    <span class="chip" title={title}>
      <span class="swatch" aria-hidden="true" style={{ background: css(colours[place] ?? [128, 128, 128]) }} />
      <Name category={category} />
      <span class="dim">{number(category.size)}</span>
    </span>
  );
}

interface ChangesProps {
  words: string;
  changes: readonly Change[];
  comparison: Comparison;
  colours: Colours;
}

function Changes({ words, changes, comparison, colours }: ChangesProps): JSX.Element | null {
  const [shown, more] = useFirst(changes, 8);
  if (!changes.length) return null;
  return (
    <div class="changes">
      <h3>
        {words} <span class="count">{number(changes.length)}</span>
      </h3>
      <ul>
        {shown.map((change, i) => (
          <li key={i}>
            <p class="verdict">
              {change.before.map((place) => (
                <Kind key={place} side={comparison.before} place={place} colours={colours.before} />
              ))}
              {change.before.length > 0 && change.after.length > 0 && <span class="dim">→</span>}
              {change.after.map((place) => (
                <Kind key={place} side={comparison.after} place={place} colours={colours.after} />
              ))}
            </p>
            <p class="dim" dir="auto">
              {change.text}
            </p>
          </li>
        ))}
      </ul>
      {more}
    </div>
  );
}

function Moved({ comparison, colours }: { comparison: Comparison; colours: Colours }): JSX.Element {
  const { moved, before, after, n_moved, unit } = comparison;
  const [shown, more] = useFirst(moved, 15);
  return (
    <section id="moved" aria-labelledby="moved-heading">
      <h2 id="moved-heading">
        Moved {unit[1]} <span class="count">{number(n_moved)}</span>
      </h2>
      {moved.length < n_moved && (
        <p class="intro dim">{number(moved.length)} of them, those most sure of their new kind first.</p>
      )}
      <ul class="suspects">
        {shown.map((sample, i) => (
          <li key={i}>
            <div class="sample-line">
              <div>
                {sample.text !== null && <LongText text={sample.text} limit={200} />}
                <bdi class={sample.text === null ? "id" : "id dim"}>{sample.id}</bdi>
              </div>
            </div>
            <p class="verdict">
              <Kind side={before} place={sample.before} colours={colours.before} />
              <span class="dim">→</span>
              <Kind side={after} place={sample.after} colours={colours.after} />
            </p>
            <ShareBar share={sample.confidence} />
          </li>
        ))}
      </ul>
      {more}
    </section>
  );
}
