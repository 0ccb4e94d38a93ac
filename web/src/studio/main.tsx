/** Where the studio starts: loads the state, draws it, then stays in step with the server. */
import { render } from "preact";
import { expose } from "../exposed";
import { ModelProvider } from "../state";
import { currentTheme, followSystem, restoreTheme } from "../theme";
import { listenForKeys } from "./keys";
import { load, Studio, StudioProvider } from "./model";
import { StudioPage } from "./page";
import type { Job } from "./refit";
import { get, Refusal, type Change } from "./server";

/** Which state the page shows. */
const shown = { n: -1 };
expose({ n: () => shown.n });

/** Milliseconds between two tries to reach the server again. */
const RETRY = 1500;
/** Without a sign of the server for so long, the connection is taken for lost. */
const SILENCE = 30_000;

async function start(): Promise<void> {
  const app = document.getElementById("app");
  if (!app) return;
  restoreTheme();
  app.replaceChildren("Loading …");
  let loaded;
  try {
    loaded = await load();
  } catch (error) {
    app.replaceChildren(error instanceof Refusal ? error.message : "The studio cannot be reached.");
    return;
  }
  app.replaceChildren();
  const studio = new Studio(...loaded);
  const setTheme = (): void => studio.setTheme(currentTheme());
  followSystem(setTheme);
  listenForKeys(studio);
  studio.live.subscribe(() => (shown.n = studio.live.get().n));
  shown.n = studio.live.get().n;
  document.title = `${studio.report.title}: Newkinds studio`;
  render(
    <ModelProvider value={studio}>
      <StudioProvider value={studio}>
        <StudioPage themeChanged={setTheme} />
      </StudioProvider>
    </ModelProvider>,
    app,
  );
  connect(studio);
}

interface Hello {
  n: number;
  job: Job | null;
}

/** Listens to the server, and begins again whenever the connection is lost. */
function connect(studio: Studio): void {
  const source = new EventSource("/api/events");
  let silence = 0;
  const retry = (): void => {
    source.close();
    clearTimeout(silence);
    if (studio.live.get().connection === "closed") return;
    studio.live.set({ connection: "lost" });
    setTimeout(() => void reconnect(studio), RETRY);
  };
  const alive = (): void => {
    clearTimeout(silence);
    silence = window.setTimeout(retry, SILENCE);
  };
  const on = <Content,>(name: string, act: (content: Content) => void): void =>
    source.addEventListener(name, (event) => {
      alive();
      act(JSON.parse((event as MessageEvent<string>).data) as Content);
    });
  const greet = ({ n, job }: Hello): void => {
    studio.live.set({ connection: "on", ...(job === undefined ? {} : { job }) });
    if (n !== studio.live.get().n) void studio.reload();
  };
  on<Hello>("hello", greet);
  on<Hello>("beat", ({ n }) => void (n > studio.live.get().n && studio.reload()));
  on<Change>("change", (change) => void studio.take(change));
  on<{ job: Job | null }>("job", ({ job }) => studio.live.set({ job }));
  on("review", () => studio.live.set({ reviewed: studio.live.get().reviewed + 1 }));
  source.onerror = retry;
  alive();
}

/** A studio that was started anew has another token: then this page is over. */
async function reconnect(studio: Studio): Promise<void> {
  try {
    await get("/api/state");
    connect(studio);
  } catch (error) {
    if (error instanceof Refusal && error.status === 403) studio.live.set({ connection: "closed" });
    else setTimeout(() => void reconnect(studio), RETRY);
  }
}

void start();
