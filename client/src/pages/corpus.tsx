import { Fragment } from "preact";
import { address, useGet } from "../api";
import { number, percent, rankName, reasonName, resultName, shortNumber, t, type Key } from "../i18n";
import { setQuery, useRoute } from "../router";
import { useCorpus } from "../site";
import { BarChart, CountList, Pager, yearBars } from "../ui";

type Counts = Record<string, number>;

interface Stats {
  read: number;
  kept: number;
  dropped: Counts;
  ranks: { bands: string[]; games: number[][] };
  years: Counts;
  results: Record<string, Counts>;
  lengths: Record<string, Counts>;
  handicaps: Counts;
  komi: Counts;
  boards: Counts;
  formats: Counts;
  programs: Counts;
  archives: Counts;
  unclear: Record<string, { games: number; texts: Counts }>;
}

const VIEWS = { "": "statistics", dropped: "droppedGames", duplicates: "duplicates", splits: "splits" } as const;

const sum = (counts: Counts) => Object.values(counts).reduce((a, b) => a + b, 0);

/** Show what a catalogue holds: statistics, dropped games, duplicates and splits. */
export function CorpusPage() {
  const { query } = useRoute();
  const corpus = useCorpus();
  const view = (query.get("view") ?? "") as keyof typeof VIEWS;
  const { value: stats, error } = useGet<Stats>("/api/stats", { corpus });
  return (
    <>
      <h1>{t("corpus")}</h1>
      <nav class="row tabs" aria-label={t("corpus")}>
        {Object.entries(VIEWS).map(([name, title]) => (
          <a
            key={name}
            href={address("/corpus", { corpus: corpus || undefined, view: name })}
            aria-current={name === view ? "page" : undefined}
          >
            {t(title)}
          </a>
        ))}
      </nav>
      {error && <p class="error" role="alert">{error}</p>}
      {!stats && !error && <p class="muted">{t("loading")}</p>}
      {stats && (
        <>
          <p>
            {t("corpusSummary", {
              read: number(stats.read), kept: number(stats.kept), dropped: number(stats.read - stats.kept),
            })}
          </p>
          {view === "dropped" ? <Dropped stats={stats} />
            : view === "duplicates" ? <Duplicates />
            : view === "splits" ? <Splits />
            : <Statistics stats={stats} />}
        </>
      )}
    </>
  );
}

/** A value of the statistics: a text of the interface where there is one. */
function label(value: string): string {
  const known: Record<string, Key> = {
    unknown: "unknown", others: "others", black: "black", white: "white", draw: "draw", score: "score",
    resign: "resign", time: "time", forfeit: "forfeit", void: "void",
    people: "people", list: "byList", pattern: "byPattern", behaviour: "byBehaviour",
  };
  const parts = value.split("+");
  if (parts.every((part) => known[part])) return parts.map((part) => t(known[part]!)).join(" + ");
  return value.replace(/^(\d+)x(\d+)$/, "$1 × $2").replace(/^(\d+)-(\d+[kdp]?)$/, "$1–$2");
}

/** Values with counts, the most frequent one first, the rest last. */
function byCount(counts: Counts): [string, number][] {
  const rank = ([value, games]: [string, number]) => (value === "others" ? -1 : games);
  return Object.entries(counts).sort((a, b) => rank(b) - rank(a));
}

function List({ title, counts }: { title: Key; counts: [string, number][] }) {
  return (
    <section class="panel">
      <h2>{t(title)}</h2>
      <CountList items={counts.map(([value, count]) => ({ value, label: label(value), count }))} />
    </section>
  );
}

function Statistics({ stats }: { stats: Stats }) {
  const years = Object.entries(stats.years).filter(([year]) => year !== "unknown");
  const unknown = stats.years["unknown"] ?? 0;
  const lengths = Object.entries(stats.lengths).map(([length, counts]) => ({ label: label(length), value: sum(counts) }));
  return (
    <>
      <p class="muted">{t("keptOnly")}</p>
      <div class="masonry">
        <section class="panel">
          <h2>{t("years")}</h2>
          <BarChart label={t("years")} bars={yearBars(years.map(([year, games]) => [Number(year), games]))} />
          {unknown > 0 && <p class="muted">{t("unknownYear", { count: number(unknown) })}</p>}
        </section>
        <section class="panel">
          <h2>{t("lengths")}</h2>
          <BarChart label={t("lengths")} bars={lengths} />
        </section>
        <Results results={stats.results} kept={stats.kept} />
        <List
          title="handicaps"
          counts={Object.entries(stats.handicaps).map(([stones, games]) => [stones === "unknown" ? t("noHandicap") : stones, games])}
        />
        <List title="komi" counts={byCount(stats.komi)} />
        <List title="boards" counts={byCount(stats.boards)} />
        <List title="archives" counts={byCount(stats.archives)} />
        <List title="formats" counts={byCount(stats.formats)} />
        <List title="programs" counts={byCount(stats.programs)} />
      </div>
      <Ranks ranks={stats.ranks} />
      <Unparsed unparsed={stats.unclear} />
    </>
  );
}

function Results({ results, kept }: { results: Stats["results"]; kept: number }) {
  const sides = ["black", "white"] as const;
  const row = (name: string, cell: (counts: Counts) => string) => (
    <tr key={name}>
      <th scope="row">{name}</th>
      {sides.map((side) => <td key={side} class="number">{cell(results[side] ?? {})}</td>)}
    </tr>
  );
  const share = (counts: Counts) => percent(kept ? sum(counts) / kept : 0);
  return (
    <section class="panel">
      <h2>{t("results")}</h2>
      <table>
        <thead>
          <tr>
            <th scope="col">{t("winner")}</th>
            {sides.map((side) => <th key={side} scope="col" class="number">{t(side)}</th>)}
          </tr>
        </thead>
        <tbody>
          {[...new Set(sides.flatMap((side) => Object.keys(results[side] ?? {})))].map((ending) =>
            row(label(ending), (counts) => number(counts[ending] ?? 0)),
          )}
          {row(t("all"), (counts) => number(sum(counts)))}
          {row(t("share"), share)}
          {Object.entries(results).filter(([winner]) => winner === "draw" || winner === "unknown").map(([winner, counts]) => (
            <tr key={winner}>
              <th scope="row">{label(winner)}</th>
              <td class="number" colSpan={2}>
                {share(counts)}: {Object.entries(counts).map(([ending, games]) => `${number(games)} ${label(ending)}`).join(", ")}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Ranks({ ranks }: { ranks: Stats["ranks"] }) {
  const used = ranks.bands.map((_, k) => k).filter((k) =>
    ranks.games.some((row, black) => row.some((games, white) => games > 0 && (black === k || white === k))),
  );
  const highest = Math.max(1, ...ranks.games.flat());
  return (
    <section class="panel">
      <h2>{t("ranksTable")}</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label={t("ranksTable")}>
        <table class="ranks fitting">
          <thead>
            <tr>
              <td />
              {used.map((k) => <th key={k} scope="col" class="number">{label(ranks.bands[k]!)}</th>)}
            </tr>
          </thead>
          <tbody>
            {used.map((black) => (
              <tr key={black}>
                <th scope="row">{label(ranks.bands[black]!)}</th>
                {used.map((white) => {
                  const games = ranks.games[black]![white]!;
                  const share = Math.round(45 * Math.sqrt(games / highest));
                  const background = `color-mix(in srgb, var(--accent) ${share}%, transparent)`;
                  return <td key={white} class="number" style={{ background }}>{games ? shortNumber(games) : "·"}</td>;
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** Return the name of a field of records whose texts are counted, see `kifu.Stats.unparsed`. */
function fieldName(column: string): string {
  const colour = /^(black|white)_rank$/.exec(column)?.[1] as "black" | "white" | undefined;
  if (colour) return `${t(colour)}: ${t("rankLabel")}`;
  return t(({ result_text: "result", komi_text: "komi", date_text: "date" } as const)[column] ?? "timeLimit");
}

function Unparsed({ unparsed }: { unparsed: Stats["unclear"] }) {
  const columns = Object.entries(unparsed);
  if (columns.length === 0) return null;
  return (
    <section class="panel">
      <h2>{t("unparsedTexts")}</h2>
      <table>
        <thead>
          <tr>
            <th scope="col">{t("column")}</th>
            <th scope="col" class="number">{t("games")}</th>
            <th scope="col">{t("examples")}</th>
          </tr>
        </thead>
        <tbody>
          {columns.map(([column, { games, texts }]) => (
            <tr key={column}>
              <th scope="row">{fieldName(column)}</th>
              <td class="number">{number(games)}</td>
              <td class="anywhere">
                {Object.entries(texts).map(([text, count]) => <div key={text}><code>{text}</code> × {number(count)}</div>)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

interface DroppedGame {
  row: number;
  archive: string;
  member: string;
  index: number;
  drop: string;
  drop_detail: string | null;
  black: string | null;
  white: string | null;
  n_moves: number;
  readable: boolean;
}

const DROPPED = 50;

function Dropped({ stats }: { stats: Stats }) {
  const { query } = useRoute();
  const corpus = useCorpus();
  const reason = query.get("reason") ?? "";
  const first = Number(query.get("first") ?? 0);
  const { value, error } = useGet<{ total: number; games: DroppedGame[] }>("/api/dropped", {
    corpus, reason, first, count: DROPPED,
  });
  if (stats.read === stats.kept) return <p>{t("nothingDropped")}</p>;
  const shown = query.get("record");
  return (
    <>
      <section class="panel">
        <h2>{t("reason")}</h2>
        <CountList
          items={Object.entries(stats.dropped).map(([value, count]) => ({
            value, label: reasonName(value), count,
          }))}
          selected={reason}
          onPick={(value) => setQuery({ reason: value === reason ? undefined : value, first: undefined, record: undefined })}
        />
      </section>
      {error && <p class="error" role="alert">{error}</p>}
      {value && (
        <div class="scroll" tabIndex={0} role="region" aria-label={t("droppedGames")}>
          <table>
            <thead>
              <tr>
                <th scope="col">{t("location")}</th>
                <th scope="col">{t("reason")}</th>
                <th scope="col">{t("detail")}</th>
                <th scope="col" class="number">{t("moves")}</th>
                <th scope="col"><span class="hidden">{t("showRecord")}</span></th>
              </tr>
            </thead>
            <tbody>
              {value.games.map((game) => (
                <Fragment key={game.row}>
                  <tr>
                    <td class="anywhere">
                      {game.readable ? <a href={`/game/${corpus}/${game.row}`}>{place(game)}</a> : place(game)}
                      {(game.black || game.white) && <div class="muted">{game.black ?? "?"} – {game.white ?? "?"}</div>}
                    </td>
                    <td>{reasonName(game.drop)}</td>
                    <td class="anywhere">{game.drop_detail}</td>
                    <td class="number">{number(game.n_moves)}</td>
                    <td>
                      <button
                        type="button"
                        aria-expanded={shown === String(game.row)}
                        aria-label={t("showRecordOf", { row: game.row })}
                        onClick={() => setQuery({ record: shown === String(game.row) ? undefined : game.row }, true)}
                      >
                        {t("showRecord")}
                      </button>
                    </td>
                  </tr>
                  {shown === String(game.row) && (
                    <tr><td colSpan={5}><RecordBytes corpus={corpus} row={game.row} /></td></tr>
                  )}
                </Fragment>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {value && <Pager first={first} count={DROPPED} total={value.total} />}
    </>
  );
}

function place(game: DroppedGame): string {
  const { archive, member, index } = game;
  return index > 0 ? t("entryOf", { archive, member, index: index + 1 }) : `${archive}: ${member}`;
}

interface RecordText {
  archive: string;
  known: boolean;
  text: string | null;
  bytes: number | null;
  shown: number | null;
}

function RecordBytes({ corpus, row }: { corpus: number; row: number }) {
  const { value, error } = useGet<RecordText>(`/api/games/${corpus}/${row}/record`);
  if (error) return <p class="error" role="alert">{error}</p>;
  if (!value) return <p class="muted">{t("loading")}</p>;
  if (!value.known) return <p>{t("recordUnknown", { archive: value.archive })}</p>;
  if (value.text === null) return <p>{t("recordMissing", { archive: value.archive })}</p>;
  return (
    <>
      <p class="muted">{t("recordBytes", { shown: number(value.shown!), total: number(value.bytes!) })}</p>
      <pre class="record" tabIndex={0}>{value.text}</pre>
    </>
  );
}

interface ClusterGame {
  row: number;
  black: string | null;
  white: string | null;
  black_rank: string | null;
  white_rank: string | null;
  date_text: string | null;
  result_text: string | null;
  n_moves: number;
  drop: string | null;
}

interface Clusters {
  total: number;
  games: number;
  clusters: { canonical: string; size: number; games: ClusterGame[] }[];
}

const CLUSTERS = 20;

function Duplicates() {
  const corpus = useCorpus();
  const first = Number(useRoute().query.get("first") ?? 0);
  const { value, error } = useGet<Clusters>("/api/clusters", { corpus, first, count: CLUSTERS });
  if (error) return <p class="error" role="alert">{error}</p>;
  if (!value) return <p class="muted">{t("loading")}</p>;
  if (value.total === 0) return <p>{t("noDuplicates")}</p>;
  return (
    <>
      <p>{t("clustersFound", { clusters: number(value.total), games: number(value.games) })}</p>
      <div class="tiles">
        {value.clusters.map((cluster) => (
          <section key={cluster.canonical} class="panel cluster">
            <h2>{t("clusterSize", { count: number(cluster.size) })} <code class="muted">{cluster.canonical}</code></h2>
            <ul>
              {cluster.games.map((game) => (
                <li key={game.row}>
                  <a href={`/game/${corpus}/${game.row}`}>
                    {game.black ?? "?"} {rankName(game.black_rank ?? "")} – {game.white ?? "?"} {rankName(game.white_rank ?? "")}
                  </a>
                  <span class="muted">
                    {" "}
                    {[game.date_text, resultName(game.result_text ?? ""), t("moveCount", { count: number(game.n_moves) })].filter(Boolean).join(" · ")}
                  </span>
                  {game.drop && <span class="error"> {t("dropped", { reason: reasonName(game.drop) })}</span>}
                </li>
              ))}
              {cluster.size > cluster.games.length && (
                <li class="muted">{t("moreGames", { count: number(cluster.size - cluster.games.length) })}</li>
              )}
            </ul>
          </section>
        ))}
      </div>
      <Pager first={first} count={CLUSTERS} total={value.total} />
    </>
  );
}

function Splits() {
  const { value: reports } = useGet<{ name: string; kind: string }[]>("/api/reports");
  const audits = (reports ?? []).map((each, report) => ({ ...each, report })).filter(({ kind }) => kind === "audit");
  const { value, error } = useGet<{ name: string; title: string; sets: Counts }[]>("/api/splits", { corpus: useCorpus() });
  if (error) return <p class="error" role="alert">{error}</p>;
  if (!value) return <p class="muted">{t("loading")}</p>;
  return (
    <>
      <p>{t("splitNote")}</p>
      <div class="tiles">
        {value.map((split) => (
          <section key={split.name} class="panel">
            <h2>{split.name}</h2>
            <p class="muted">{split.title}</p>
            <table>
              <thead>
                <tr>
                  <th scope="col">{t("set")}</th>
                  <th scope="col" class="number">{t("games")}</th>
                  <th scope="col" class="number">{t("share")}</th>
                </tr>
              </thead>
              <tbody>
                {Object.entries(split.sets).map(([name, games]) => (
                  <tr key={name}>
                    <th scope="row">{name || t("noSet")}</th>
                    <td class="number">{number(games)}</td>
                    <td class="number">{percent(games / (sum(split.sets) || 1), 2)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </section>
        ))}
      </div>
      {audits.length > 0 && (
        <>
          <h2>{t("auditResults")}</h2>
          <ul>{audits.map(({ name, report }) => <li key={report}><a href={`/reports?report=${report}`}>{name}</a></li>)}</ul>
        </>
      )}
    </>
  );
}
