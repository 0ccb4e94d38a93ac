/** The report page: the result in words, the map, the kinds, what is worth a look, how it was found. */
import type { JSX } from "preact";
import { Kinds } from "./kinds";
import { Look } from "./look";
import { MapSection } from "./map/map";
import { Header, Footer, Summary } from "./frame";
import { HowSection } from "./how";
import { TruthSection } from "./truth";
import { useModel, useReport } from "./state";

export function ReportPage({ themeChanged }: { themeChanged: () => void }): JSX.Element {
  const { report } = useModel();
  const news = report.categories.some(({ kind }) => kind === "new");
  const known = report.categories.some(({ kind }) => kind === "known");
  const sections: [string, string][] = [];
  if (report.map) sections.push(["map", "Map"]);
  if (news) sections.push(["new", "New kinds"]);
  if (report.advice.length || report.suspects.length) sections.push(["look", "Worth a look"]);
  if (known) sections.push(["known", "Known kinds"]);
  if (report.truth) sections.push(["truth", "Accuracy"]);
  sections.push(["how", "How it was found"]);
  return (
    <>
      <Header title={report.title} sections={sections} themeChanged={themeChanged} />
      <main>
        <Summary title={report.title} sentences={report.summary} />
        <Trouble />
        <MapSection />
        <Kinds kind="new" />
        <Look />
        <Kinds kind="known" />
        <TruthSection />
        <HowSection />
      </main>
      <Footer newkinds={report.newkinds} created={report.created} />
    </>
  );
}

/** What this browser cannot show, and why. */
function Trouble(): JSX.Element | null {
  const unpacking = useReport((state) => state.unpacking);
  if (unpacking === "missing") {
    return (
      <p class="trouble" role="status">
        This browser cannot unpack the map and the further texts. Everything else is here. A newer browser shows all.
      </p>
    );
  }
  if (unpacking === "broken") {
    return (
      <p class="trouble" role="status">
        The map and the further texts in this file cannot be read. Write the page again with <code>newkinds report</code>.
      </p>
    );
  }
  return null;
}
