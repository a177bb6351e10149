import { useGet } from "../api";
import { number, t } from "../i18n";
import { useRoute } from "../router";
import { ShownEvaluation, type Evaluation, type GameRow } from "./evaluation";
import { Breakdown, Differences, NetTable, Region, Remarks, type Interval, type Measure, type Score, type ScoredNet } from "./scores";

interface BenchmarkNet extends ScoredNet {
  description: string;
  symmetries: boolean;
  score: Score | null;
  drift: Partial<Record<Measure, [number, Interval]>>;
}

interface Benchmark {
  sets: {
    name: string;
    title: string;
    games: number;
    used: number;
    positions: number;
    remarks: string[];
    nets: BenchmarkNet[];
  }[];
}

interface Place {
  archive: string;
  entry: number;
  index: number;
  game: GameRow;
}

interface Audit {
  leaks: boolean;
  stones: [number, number | null][];
  sets: { path: string; kind: string; games: number | null; positions: number }[];
  pairs: {
    first: string;
    second: string;
    distinct: number[];
    first_rows: number[];
    second_rows: number[];
    first_games: number;
    second_games: number;
    games: { first: Place | null; second: Place | null; positions: number; cluster: boolean; record: boolean }[];
    shared: number;
  }[];
}

type Report =
  | { name: string; kind: "evaluation"; values: Evaluation }
  | { name: string; kind: "benchmark"; values: Benchmark }
  | { name: string; kind: "audit"; values: Audit };

/** Show evaluations and benchmarks of nets, and audits of sets. */
export function ReportsPage() {
  const chosen = useRoute().query.get("report") ?? "0";
  const { value: list, error } = useGet<{ name: string; kind: Report["kind"] }[]>("/api/reports");
  if (error) return <p class="error" role="alert">{error}</p>;
  if (!list) return <p class="muted">{t("loading")}</p>;
  return (
    <>
      <h1>{t("reports")}</h1>
      {list.length === 0 && <p>{t("noReports")}</p>}
      {list.length > 0 && (
        <>
          <nav class="row tabs" aria-label={t("reports")}>
            {list.map(({ name, kind }, k) => (
              <a key={k} href={`/reports?report=${k}`} aria-current={String(k) === chosen ? "page" : undefined}>
                {name} <span class="muted">({t(kind)})</span>
              </a>
            ))}
          </nav>
          <ShownReport key={chosen} report={chosen} />
        </>
      )}
    </>
  );
}

function ShownReport({ report }: { report: string }) {
  const { value, error } = useGet<Report>(`/api/reports/${encodeURIComponent(report)}`);
  if (error) return <p class="error" role="alert">{error}</p>;
  if (!value) return <p class="muted">{t("loading")}</p>;
  if (value.kind === "evaluation") return <ShownEvaluation values={value.values} />;
  if (value.kind === "benchmark") return <ShownBenchmark values={value.values} />;
  return <ShownAudit values={value.values} />;
}

function ShownBenchmark({ values }: { values: Benchmark }) {
  return (
    <>
      {values.sets.map((set) => {
        const nets = set.nets.map((net) => ({
          ...net, name: net.symmetries ? `${net.name}, ${t("symmetries")}` : net.name,
        }));
        const drifting = nets.filter((net) => Object.keys(net.drift).length > 0);
        return (
          <section key={set.name}>
            <h2>{set.name}</h2>
            <p>
              {set.title}
              <br />
              <span class="muted">
                {t("setGames", { used: number(set.used), games: number(set.games), positions: number(set.positions) })}
              </span>
            </p>
            <Remarks remarks={set.remarks} />
            <section class="panel">
              <NetTable
                label={set.name}
                nets={nets}
                note={(net) => net.description}
                value={(net, measure) => net.score?.[measure]}
              />
              <p class="muted">{t("intervals")}</p>
              <Differences nets={nets} />
              {drifting.length > 0 && (
                <>
                  <h3>{t("drift")}</h3>
                  <NetTable label={t("drift")} nets={drifting} value={(net, measure) => net.drift[measure]?.[0]} />
                </>
              )}
            </section>
            <Breakdown nets={nets} />
          </section>
        );
      })}
    </>
  );
}

function ShownAudit({ values }: { values: Audit }) {
  return (
    <>
      <p class={values.leaks ? "remark" : undefined}>{values.leaks ? `⚠ ${t("leaks")}` : t("noLeaks")}</p>
      <section class="panel">
        <Region label={t("audit")}>
          <table>
            <thead>
              <tr>
                <th scope="col">{t("set")}</th>
                <th scope="col">{t("entries")}</th>
                <th scope="col" class="number">{t("games")}</th>
                <th scope="col" class="number">{t("positions")}</th>
              </tr>
            </thead>
            <tbody>
              {values.sets.map((set) => (
                <tr key={set.path}>
                  <th scope="row" class="anywhere">{set.path}</th>
                  <td>{set.kind}</td>
                  <td class="number">{set.games === null ? "–" : number(set.games)}</td>
                  <td class="number">{number(set.positions)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Region>
      </section>
      {values.pairs.map((pair) => {
        const title = `${pair.first} – ${pair.second}`;
        const rows: [string, number[]][] = [
          [t("inBoth"), pair.distinct],
          [t("rowsOf", { set: pair.first }), pair.first_rows],
          [t("rowsOf", { set: pair.second }), pair.second_rows],
        ];
        return (
          <section key={title} class="panel">
            <h2 class="anywhere">{title}</h2>
            <Region label={title}>
              <table>
                <thead>
                  <tr>
                    <th scope="col">{t("stones")}</th>
                    {values.stones.map(([low, high]) => (
                      <th key={low} scope="col" class="number">{high === null ? `${low}+` : `${low}–${high}`}</th>
                    ))}
                  </tr>
                </thead>
                <tbody>
                  {rows.map(([name, counts]) => (
                    <tr key={name}>
                      <th scope="row" class="anywhere">{name}</th>
                      {counts.map((count, k) => <td key={k} class="number">{number(count)}</td>)}
                    </tr>
                  ))}
                </tbody>
              </table>
            </Region>
            <p>{t("gamesInBoth", { first: number(pair.first_games), second: number(pair.second_games) })}</p>
            <ul>
              {pair.games.map((game, k) => (
                <li key={k} class="anywhere">
                  <Location place={game.first} /> = <Location place={game.second} />:{" "}
                  {[
                    game.record ? t("sameRecord") : "",
                    game.cluster ? t("sameGame") : "",
                    game.positions ? t("latePositions", { count: number(game.positions) }) : "",
                  ].filter(Boolean).join(", ")}
                </li>
              ))}
              {pair.shared > pair.games.length && (
                <li class="muted">{t("moreGames", { count: number(pair.shared - pair.games.length) })}</li>
              )}
            </ul>
          </section>
        );
      })}
    </>
  );
}

function Location({ place }: { place: Place | null }) {
  if (!place) return <>{t("unknown")}</>;
  const text = t("entryGame", { archive: place.archive, entry: place.entry + 1 });
  return place.game ? <a href={`/game/${place.game[0]}/${place.game[1]}`}>{text}</a> : <>{text}</>;
}
