/** Where a page starts: reads its data, draws it, then unpacks the rest. */
import { options, render } from "preact";
import { canDecompress, readContent, readPictures, readPoints, readTexts } from "./decode";
import { categoryColours } from "./colours";
import { ReportPage } from "./report";
import { Model, ModelProvider } from "./state";
import { currentTheme, startTheme } from "./theme";
import type { Report } from "./data";

function start(): void {
  const app = document.getElementById("app");
  if (!app) return;
  const content = readContent();
  app.replaceChildren();
  if (content.page === "report") startReport(content, app);
}

function startReport(report: Report, app: HTMLElement): void {
  startTheme(() => setTheme());
  const model = new Model(report, readPictures());
  const setTheme = (): void => {
    const theme = currentTheme();
    model.store.set({ theme, colours: categoryColours(report.categories, theme) });
  };
  render(
    <ModelProvider value={model}>
      <ReportPage themeChanged={setTheme} />
    </ModelProvider>,
    app,
  );
  drawAllWhenNeeded(model);
  followAddress(model);
  void unpack(model);
}

async function unpack({ report, store }: Model): Promise<void> {
  if (!canDecompress()) return store.set({ unpacking: "missing" });
  try {
    const [points, texts] = await Promise.all([readPoints(report.n_samples, report.map !== null), readTexts()]);
    store.set({ points, texts, unpacking: "done" });
  } catch (error) {
    console.error(error);
    store.set({ unpacking: "broken" });
  }
}

/** Paper and the browser's own search want every card, not just those in view. */
function drawAllWhenNeeded({ store }: Model): void {
  const print = (printing: boolean): void => {
    // Paper does not wait for the next frame, as drawing usually does.
    const usual = options.debounceRendering;
    options.debounceRendering = (redraw) => redraw();
    store.set({ printing });
    if (usual) options.debounceRendering = usual;
    else delete options.debounceRendering;
  };
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
  matchMedia("print").addEventListener("change", (event) => print(event.matches));
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
