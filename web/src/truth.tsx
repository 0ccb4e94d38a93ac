/** With the truth at hand: how often the result is right, where it errs, whether its confidence can be trusted. */
import type { JSX } from "preact";
import { Bar, Chip, ShareBar, useFirst } from "./bits";
import { Reliability } from "./charts";
import type { Truth } from "./data";
import { useModel } from "./state";
import { number, percent } from "./words";

export function TruthSection(): JSX.Element | null {
  const { truth } = useModel().report;
  if (!truth) return null;
  const shares: [string, number | null][] = [
    ["of all samples are right", truth.all],
    ["of those of known kinds", truth.old],
    ["of those of new kinds", truth.new],
  ];
  return (
    <section id="truth" aria-labelledby="truth-heading">
      <h2 id="truth-heading">Accuracy</h2>
      <p class="intro dim">{truth.protocol}</p>
      <ul class="figures">
        {shares.map(([words, share]) =>
          share === null ? null : (
            <li key={words}>
              <b>{percent(share)}</b> {words}
            </li>
          ),
        )}
      </ul>
      <div class="halves">
        <ByKind />
        <div>
          <Trust truth={truth} />
        </div>
      </div>
      <Confusions truth={truth} />
    </section>
  );
}

function Trust({ truth }: { truth: Truth }): JSX.Element | null {
  if (!truth.reliability.length) return null;
  return (
    <figure class="chart">
      <h3>Can its confidence be trusted?</h3>
      <Reliability bins={truth.reliability} />
      <figcaption class="dim">
        On the line, a confidence of 80 % is right 80 times in 100; below it, Newkinds is too sure. Larger dots stand for
        more samples.
        {truth.calibration_error !== null && ` On average the two are ${percent(truth.calibration_error)} apart.`}
      </figcaption>
    </figure>
  );
}

function Confusions({ truth }: { truth: Truth }): JSX.Element | null {
  const [shown, more] = useFirst(truth.confusions, 10);
  if (!shown.length) return null;
  return (
    <div id="confusions">
      <h3>What is confused most</h3>
      <table>
        <thead>
          <tr>
            <th>In truth</th>
            <th>Taken for</th>
            <th class="number">Samples</th>
            <th>Share of it</th>
          </tr>
        </thead>
        <tbody>
          {shown.map(({ truth: name, category, n, share }) => (
            <tr key={`${category} ${name}`}>
              <td>
                <bdi class="clamp">{name}</bdi>
              </td>
              <td>
                <Chip id={category} />
              </td>
              <td class="number">{number(n)}</td>
              <td>
                <ShareBar share={share} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {more}
    </div>
  );
}

/** The worst first: those are worth a look. */
function ByKind(): JSX.Element | null {
  const { categories } = useModel().report;
  const judged = categories
    .filter(({ accuracy }) => accuracy !== null)
    .sort((a, b) => (a.accuracy ?? 0) - (b.accuracy ?? 0));
  const [shown, more] = useFirst(judged, 20);
  if (!judged.length) return null;
  return (
    <div id="accuracies">
      <h3>By kind, the worst first</h3>
      <ul class="accuracies">
        {shown.map(({ id, accuracy }) => (
          <li key={id}>
            <Chip id={id} />
            <Bar share={accuracy ?? 0} />
            <span>{percent(accuracy ?? 0)}</span>
          </li>
        ))}
      </ul>
      {more}
    </div>
  );
}
