/** How it was found, folded: for those who want to know settings, curves and versions; and what the words mean. */
import type { JSX } from "preact";
import { CurveChart, HeatTable } from "./charts";
import { usePrinting } from "./printing";
import { useModel } from "./state";

export function HowSection(): JSX.Element {
  const { how, meanings, map } = useModel().report;
  const printing = usePrinting();
  const words = Object.entries(meanings);
  return (
    <section class="folded">
      <details id="how" open={printing}>
        <summary>
          <h2>How it was found</h2>
        </summary>
        <dl class="facts">
          {how.facts.map(([name, value, sentence]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd class="value">{value}</dd>
              <dd class="dim">{sentence}</dd>
            </div>
          ))}
          {map && (
            <div>
              <dt>Map</dt>
              <dd class="value">{map.method}</dd>
              <dd class="dim">{map.explanation}</dd>
            </div>
          )}
        </dl>
        <div class="charts">
          {how.charts.map((chart, i) => (
            <figure class="chart" key={i}>
              <h3>{chart.title}</h3>
              {chart.kind === "curve" ? <CurveChart curve={chart} /> : <HeatTable heat={chart} />}
              <figcaption class="dim">{chart.text}</figcaption>
            </figure>
          ))}
        </div>
        {how.versions.length > 0 && (
          <p class="versions dim">
            {how.versions.map(([name, version]) => (
              <span key={name}>
                {name} {version}
              </span>
            ))}
          </p>
        )}
      </details>
      {words.length > 0 && (
        <details id="words" open={printing}>
          <summary>
            <h2>What the words mean</h2>
          </summary>
          <dl class="meanings">
            {words.map(([word, meaning]) => (
              <div key={word}>
                <dt>{word}</dt>
                <dd class="dim">{meaning}</dd>
              </div>
            ))}
          </dl>
        </details>
      )}
    </section>
  );
}
