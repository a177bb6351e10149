import { useMemo, useRef } from "preact/hooks";
import { address, BLACK, POINT_MASK, stonesAfter, useGet, WHITE, WHITE_BIT, type Params, type ShownLine } from "../api";
import { Board, pointName } from "../board";
import { ContinuationTable, continuationHeat, LabelChoice, moveName, ResultBar, YearChart, type Continuation } from "../continuations";
import { number, percent, resultName, t } from "../i18n";
import { setQuery, useRoute } from "../router";
import { useCorpus, useSite } from "../site";
import { Disclosure, FilterForm, useFilter, useStepKeys } from "../ui";

interface Exploration {
  line: ShownLine;
  to_play: number;
  games: number;
  black_wins: number;
  white_wins: number;
  years: [number, number][];
  continuations: Continuation[];
}

interface FoundGame {
  row: number;
  ply: number | null;
  black: string | null;
  white: string | null;
  date: string | null;
  year: number | null;
  result: string | null;
}

const LETTERS = "abcdefghijklmnopqrstuvwxy";
const COLOURS = { black: BLACK, white: WHITE };

function sgf(point: number, width: number, height: number): string {
  return point < width * height ? `${LETTERS[point % width]}${LETTERS[Math.floor(point / width)]}` : "--";
}

/** Explore continuations of positions: the line of moves and the choice of games are in the address. */
export function ExplorerPage() {
  const { query } = useRoute();
  const corpus = useCorpus();
  const filter = useFilter();
  const { indexed, name } = useSite().corpora[corpus]!;
  const start = { game: query.get("game"), ply: query.get("ply") };
  const tokens: string[] = (query.get("moves") ?? "").match(/[BW]?(?:[a-y]{2}|--)/g) ?? [];
  const { value, error, loading } = useGet<Exploration>("/api/explore", {
    corpus, ...filter, ...start, moves: tokens.join(""),
  });
  const longest = useRef<string[]>(tokens);
  if (tokens.some((token, k) => longest.current[k] !== token)) longest.current = tokens;

  const at = (count: number) => longest.current.slice(0, count).join("");
  const go = (moves: string) => setQuery({ moves, first: undefined });
  const link = (count: number) => {
    const rest = Object.fromEntries(query);
    return address("/explore", { ...rest, moves: at(count) });
  };
  const shares = query.get("labels") === "shares";
  const { width, height } = value?.line ?? { width: 19, height: 19 };
  const stones = useMemo(() => (value ? stonesAfter(value.line, value.line.steps.length) : []), [value]);
  const heat = useMemo(() => continuationHeat(value?.continuations ?? [], width, shares), [value, shares]);

  const play = (point: number) => {
    if (!value || loading) return;
    const here = value.continuations.find((each) =>
      point === width * height ? each.is_pass : each.x === point % width && each.y === Math.floor(point / width),
    );
    const colour = here?.colour ? COLOURS[here.colour] : value.to_play;
    const prefix = colour === value.to_play ? "" : colour === BLACK ? "B" : "W";
    go(tokens.join("") + prefix + sgf(point, width, height));
  };
  useStepKeys((by) => {
    const count = Math.min(Math.max(tokens.length + by, 0), longest.current.length);
    if (count !== tokens.length) go(at(count));
  });
  const last = value?.line.moves.at(-1);
  const base = (value?.line.moves.length ?? 0) - tokens.length;
  return (
    <>
      <h1>{t("explore")}</h1>
      {!indexed && <p class="remark">{t("noIndex", { name })}</p>}
      <Disclosure title={t("filter")} open={Object.values(filter).some(Boolean)}><FilterForm /></Disclosure>
      {error && <p class="error" role="alert">{error}</p>}
      <div class="columns">
        <section aria-label={t("exploreBoard")}>
          <Board
            width={width}
            height={height}
            stones={stones}
            last={last === undefined ? undefined : last & POINT_MASK}
            heat={heat}
            onPoint={play}
            label={t("exploreBoard")}
          />
          <div class="row explorer-controls">
            <button type="button" disabled={!tokens.length} onClick={() => go(at(tokens.length - 1))}>← {t("stepBack")}</button>
            <button
              type="button"
              disabled={tokens.length >= longest.current.length}
              onClick={() => go(at(tokens.length + 1))}
            >
              {t("stepForward")} →
            </button>
            <button type="button" disabled={!value} onClick={() => play(width * height)}>{t("pass")}</button>
            <LabelChoice shares={shares} onChange={(on) => setQuery({ labels: on ? "shares" : undefined }, true)} />
          </div>
          <nav class="row breadcrumbs" aria-label={t("movesPlayed")}>
            <a href={link(0)} aria-current={tokens.length ? undefined : "step"}>
              {start.game === null ? t("startPosition") : t("gamePosition", { row: Number(start.game) + 1, ply: start.ply ?? 0 })}
            </a>
            {value?.line.moves.slice(base).map((word, k) => (
              <a key={k} href={link(k + 1)} aria-current={k === tokens.length - 1 ? "step" : undefined}>
                <span class={`stone stone_${word & WHITE_BIT ? "white" : "black"}`} aria-hidden="true" />
                {pointName(word & POINT_MASK, width, height)}
              </a>
            ))}
          </nav>
          <p>
            <a href={address("/search", { corpus, ...filter, ...start, moves: tokens.join("") })}>{t("searchRegion")}</a>
          </p>
          <p class="muted">{t("exploreMerged")}</p>
        </section>
        <section aria-busy={loading}>
          {value && <Found {...{ value, corpus, start, filter, moves: tokens.join(""), play }} />}
        </section>
      </div>
    </>
  );
}

/** Return the position of a line as the list of games takes it, with the next move or "". */
function listed(value: Exploration, start: FoundProps["start"], moves: string, next: string): string {
  const { width, height } = value.line;
  const from = start.game === null ? `${width}x${height}` : `${start.game}-${start.ply ?? 0}`;
  return `${from}.${moves}.${next}`;
}

interface FoundProps {
  value: Exploration;
  corpus: number;
  start: { game: string | null; ply: string | null };
  filter: Params;
  moves: string;
  play: (point: number) => void;
}

function Found({ value, corpus, start, filter, moves, play }: FoundProps) {
  const { query } = useRoute();
  const { width, height } = value.line;
  const decided = value.black_wins + value.white_wins;
  const name = (each: Continuation) => moveName(each, width, height, true);
  const all = (next: string) => address("/", { corpus, ...filter, position: listed(value, start, moves, next) });
  const chosen = value.continuations.find((each) => name(each) === query.get("next")) ?? value.continuations[0];
  return (
    <>
      <p aria-live="polite">
        <strong>{t("exploreGames", { count: number(value.games) })}</strong>
        {decided > 0 && (
          <> · {t("winShares", { black: percent(value.black_wins / decided), white: percent(value.white_wins / decided) })}</>
        )}
        {value.games > 0 && <> · <a href={all("")}>{t("listGames")}</a></>}
      </p>
      {decided > 0 && <ResultBar black={value.black_wins / decided} />}
      <h2>{t("continuations")}</h2>
      {value.continuations.length === 0 && <p>{t("noContinuations")}</p>}
      {value.continuations.length > 0 && (
        <ContinuationTable
          key={moves}
          found={value.continuations}
          years={value.years}
          name={name}
          selected={chosen}
          onPick={(each) => play(each.x === null || each.y === null ? width * height : each.y * width + each.x)}
        />
      )}
      {chosen && (
        <>
          <h2>
            <label>
              {t("gamesOf")}{" "}
              <select value={name(chosen)} onChange={(event) => setQuery({ next: event.currentTarget.value }, true)}>
                {value.continuations.slice(0, 60).map((each) => <option key={name(each)}>{name(each)}</option>)}
              </select>
            </label>
          </h2>
          <Games {...{ corpus, start, moves, chosen, size: `${width}x${height}` }} />
          {chosen.x !== null && chosen.y !== null && (
            <p>
              <a href={all((chosen.colour === "white" ? "W" : "B") + sgf(chosen.y * width + chosen.x, width, height))}>
                {t("allGames", { count: number(chosen.count) })}
              </a>
            </p>
          )}
        </>
      )}
      <YearChart years={value.years} />
    </>
  );
}

function Games({ corpus, start, moves, chosen, size }: Pick<FoundProps, "corpus" | "start" | "moves"> & {
  chosen: Continuation;
  size: string;
}) {
  const rows = [...new Set([...chosen.recent, ...chosen.strongest])];
  const { value, error } = useGet<FoundGame[]>(rows.length ? "/api/explore/games" : undefined, {
    corpus, ...start, board: size, moves, rows: rows.join(","),
  });
  const games = new Map(value?.map((game) => [game.row, game]));
  if (error) return <p class="error">{error}</p>;
  return (
    <>
      {([["latestGames", chosen.recent], ["strongestGames", chosen.strongest]] as const).map(([title, rows]) => (
        <div key={title}>
          <h3>{t(title)}</h3>
          <ul class="plain-list">
            {rows.map((row) => games.get(row)).map((game) => game && (
              <li key={game.row} class="anywhere">
                <a href={address(`/game/${corpus}/${game.row}`, { ply: game.ply })}>{game.black ?? "?"} – {game.white ?? "?"}</a>{" "}
                <span class="muted">{[game.date ?? game.year, game.result && resultName(game.result)].filter(Boolean).join(", ")}</span>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </>
  );
}
