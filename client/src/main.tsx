// The application: header, navigation, and the page that the address names.
import "@sabaki/shudan/css/goban.css";
import "./app.css";
import { render, type ComponentType } from "preact";
import { useEffect } from "preact/hooks";
import { address, useGet, type Net, type Site } from "./api";
import { LANGUAGES, t, useLanguage, type Key, type Language } from "./i18n";
import { CorpusPage } from "./pages/corpus";
import { ExplorerPage } from "./pages/explorer";
import { GamePage } from "./pages/game";
import { GamesPage } from "./pages/games";
import { PatternsPage } from "./pages/patterns";
import { PlanesPage } from "./pages/planes";
import { PlayPage } from "./pages/play";
import { ProblemsPage } from "./pages/problems";
import { ReportsPage } from "./pages/reports";
import { navigate, RouteContext, setQuery, useRouter, type Route } from "./router";
import { SiteContext } from "./site";
import { DropFiles, PendingCondition } from "./ui";

/** Pages by the first part of their path, in the order of the navigation; `nav` is false for those without an entry. */
const PAGES: Record<string, { page: ComponentType; title: Key; nav?: false }> = {
  "": { page: GamesPage, title: "games" },
  game: { page: GamePage, title: "games", nav: false },
  explore: { page: ExplorerPage, title: "explore" },
  search: { page: PatternsPage, title: "search" },
  play: { page: PlayPage, title: "play" },
  problems: { page: ProblemsPage, title: "problems" },
  planes: { page: PlanesPage, title: "planes" },
  corpus: { page: CorpusPage, title: "corpus" },
  reports: { page: ReportsPage, title: "reports" },
};

function setTheme(theme: string | null): void {
  if (theme) document.documentElement.dataset["theme"] = theme;
}

/** Show the same page anew for another catalogue, where the numbers of games mean other games. */
function showCatalogue({ parts, query }: Route, corpus: string): void {
  const position = query.get("position") ?? "";
  if (parts[0] === "game") navigate(address("/", { corpus }));
  else if (query.has("game") || query.has("row") || /^\d+-/.test(position)) navigate(address(location.pathname, { corpus }));
  else setQuery({ corpus, first: undefined, record: undefined });
}

function Application() {
  const route = useRouter();
  const [language, setLanguage] = useLanguage();
  const { value: site, error } = useGet<Site>("/api/site");
  const { value: nets, error: netsError } = useGet<Net[]>(site?.nets === null ? "/api/nets" : undefined);
  const shown = PAGES[route.parts[0] ?? ""];
  // A game has its catalogue in the path, other pages have theirs in the query.
  const ofGame = /^\d+$/.test(route.parts[1] ?? "") ? route.parts[1] : undefined;
  const corpus = ofGame ?? route.query.get("corpus");
  useEffect(() => {
    document.title = `${t(shown?.title ?? "missing")} · kifu`;
  });
  const toggleTheme = () => {
    const dark = getComputedStyle(document.documentElement).colorScheme === "dark";
    localStorage.setItem("theme", dark ? "light" : "dark");
    setTheme(dark ? "light" : "dark");
  };
  return (
    <RouteContext.Provider value={route}>
      <a class="skip" href="#content">{t("skip")}</a>
      <header>
        <a class="brand" href="/">kifu</a>
        <nav>
          {Object.entries(PAGES).map(([path, { title, nav }]) =>
            nav === false ? null : (
              <a
                key={path}
                href={address(`/${path}`, { corpus })}
                aria-current={shown?.title === title ? "page" : undefined}
              >
                {t(title)}
              </a>
            ),
          )}
        </nav>
        <div class="settings">
          {site && site.corpora.length > 1 && (
            <select
              aria-label={t("catalogue")}
              value={corpus ?? "0"}
              onChange={(event) => showCatalogue(route, event.currentTarget.value)}
            >
              {site.corpora.map(({ name }, k) => <option key={k} value={k}>{name}</option>)}
            </select>
          )}
          <select
            aria-label={t("language")}
            value={language}
            onChange={(event) => setLanguage(event.currentTarget.value as Language)}
          >
            {Object.entries(LANGUAGES).map(([code, name]) => <option key={code} value={code}>{name}</option>)}
          </select>
          <button type="button" aria-label={t("theme")} title={t("theme")} onClick={toggleTheme}>◐</button>
        </div>
      </header>
      <main id="content" tabIndex={-1}>
        <DropFiles />
        {(error ?? netsError) && <p class="error" role="alert">{error ?? netsError}</p>}
        {site && (
          <SiteContext.Provider value={{ ...site, nets: site.nets ?? nets ?? null }}>
            <PendingCondition />
            {shown ? <shown.page key={[...route.parts, corpus ?? 0].join("/")} /> : (
              <>
                <h1>{t("missing")}</h1>
                <p><a href="/">{t("toGames")}</a></p>
              </>
            )}
          </SiteContext.Provider>
        )}
      </main>
    </RouteContext.Provider>
  );
}

setTheme(localStorage.getItem("theme"));
render(<Application />, document.getElementById("app")!);
