/** "Worth a look": advice with what to do about it, and labels that look wrong. */
import type { JSX } from "preact";
import { Chip, Command, Term, useFirst } from "./bits";
import type { Advice } from "./data";
import { SampleLine } from "./samples";
import { useModel } from "./state";
import { number } from "./words";

/** Advice about many kinds names these first. */
const CHIPS = 8;
/** Words instead of a percentage: nine in ten of these are wrong, not ninety-nine in a hundred. */
const NEARLY_SURE = 0.95;

export function Look(): JSX.Element | null {
  const { advice, suspects } = useModel().report;
  if (!advice.length && !suspects.length) return null;
  return (
    <section id="look" aria-labelledby="look-heading">
      <h2 id="look-heading">Worth a look</h2>
      {advice.length > 0 && (
        <ul class="advice">
          {advice.map((item, i) => (
            <AdviceItem key={i} item={item} />
          ))}
        </ul>
      )}
      {suspects.length > 0 && <Suspects />}
    </section>
  );
}

function AdviceItem({ item }: { item: Advice }): JSX.Element {
  const [chips, more] = useFirst(item.categories, CHIPS);
  return (
    <li data-topic={item.topic}>
      <h3 dir="auto">{item.title}</h3>
      {item.text && <p dir="auto">{item.text}</p>}
      {chips.length > 0 && (
        <p class="chips">
          {chips.map((id) => (
            <Chip key={id} id={id} />
          ))}
          {more}
        </p>
      )}
      {item.command && <Command text={item.command} />}
    </li>
  );
}

function Suspects(): JSX.Element {
  const { suspects, n_suspects } = useModel().report;
  const [shown, more] = useFirst(suspects, 10);
  return (
    <div id="suspects">
      <h3>
        Labels that look wrong <span class="count">{number(n_suspects)}</span>
      </h3>
      <ul class="suspects">
        {shown.map((suspect) => (
          <li key={suspect.row}>
            <SampleLine row={suspect.row} />
            <p class="verdict">
              <span class="dim">labelled</span>
              <Chip id={suspect.given} />
              <span class="dim">looks like</span>
              <Chip id={suspect.likely} />
            </p>
            <Term word="suspect">
              <span class="share">{suspect.probability >= NEARLY_SURE ? "very probably wrong" : "probably wrong"}</span>
            </Term>
          </li>
        ))}
      </ul>
      {more}
    </div>
  );
}
