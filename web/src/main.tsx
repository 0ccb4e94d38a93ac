/** Where a page starts: reads its data, draws it, then unpacks the rest. */
import { render } from "preact";
import { ComparisonPage } from "./comparison";
import { canDecompress, readContent, readPictures, readPoints, readTexts } from "./decode";
import { categoryColours } from "./colours";
import { expose } from "./exposed";
import { watchPrinting } from "./printing";
import { ReportPage } from "./report";
import { Model, ModelProvider } from "./state";
import { currentTheme, followSystem, restoreTheme } from "./theme";
import type { Report } from "./data";

expose();

function start(): void {
  const app = document.getElementById("app");
  if (!app) return;
  const content = readContent();
  app.replaceChildren();
  restoreTheme();
  watchPrinting();
  if (content.page === "report") startReport(content, app);
  else render(<ComparisonPage comparison={content} />, app);
}

function startReport(report: Report, app: HTMLElement): void {
  const model = new Model(report, readPictures());
  const setTheme = (): void => {
    const theme = currentTheme();
    model.store.set({ theme, colours: categoryColours(report.categories, theme) });
  };
  followSystem(setTheme);
  render(
    <ModelProvider value={model}>
      <ReportPage themeChanged={setTheme} />
    </ModelProvider>,
    app,
  );
  drawAllForSearch(model);
  followAddress(model);
  void unpack(model);
}

async function unpack({ report, store }: Model): Promise<void> {
  if (!canDecompress()) return store.set({ unpacking: "missing" });
  try {
    const [points, texts] = await Promise.all([readPoints(report.n_points, report.map !== null), readTexts()]);
    store.set({ points, texts, unpacking: "done" });
  } catch (error) {
    console.error(error);
    store.set({ unpacking: "broken" });
  }
}

/** The browser's own search wants every card, not just those in view. */
function drawAllForSearch({ store }: Model): void {
  addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "f") store.set({ drawAll: true });
  });
}

/** An address that ends in #kind-12 leads to that card. */
function followAddress(model: Model): void {
  const follow = (): void => {
    const id = /^#kind-(\d+)$/.exec(location.hash)?.[1];
    const place = id === undefined ? undefined : model.place(Number(id));
    if (place !== undefined) model.reveal(place);
  };
  addEventListener("hashchange", follow);
  follow();
}

start();
