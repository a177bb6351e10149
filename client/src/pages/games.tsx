import { useMemo, useState } from "preact/hooks";
import { address, BLACK, get, POINT_MASK, stonesAfter, useGet, WHITE, type ShownLine } from "../api";
import { pointName, Thumbnail } from "../board";
import { number, rankName, reasonName, resultName, t } from "../i18n";
import { fromLetters } from "../lines";
import { navigate, useRoute } from "../router";
import { useCorpus } from "../site";
import { BarChart, CountList, Disclosure, FilterField, FilterForm, Pager, setFilter, SortHead, useFilter, yearBars } from "../ui";
import { openFiles } from "../uploads";

interface Game {
  row: number;
  black: string | null;
  white: string | null;
  black_rank: string | null;
  white_rank: string | null;
  date: string | null;
  event: string | null;
  result: string | null;
  winner: string | null;
  moves: number;
  handicap: number | null;
  width: number;
  height: number;
  drop: string | null;
  /** The number of moves before the position that narrows the list. */
  ply?: number;
}

interface Games {
  total: number;
  games: Game[];
  /** The line to the position that narrows the list. */
  line?: ShownLine;
}

type Counts<T> = [T, number][];

interface Facets {
  years: Counts<number | null>;
  boards: Counts<string>;
  handicaps: Counts<string>;
  winners: Counts<string>;
  archives: Counts<string>;
  players: Counts<string>;
}

const PAGE = 50;

/** Number of games that are shown as pictures. */
const LATEST = 6;

/** The order of the catalogue, which the server takes as no order. */
const UNSORTED = "catalogue";

/** Return the order of the list in the address, by default the newest games first. */
function orderOf(query: URLSearchParams): { sort: string; descending: boolean } {
  const sort = query.get("sort") ?? "date";
  return { sort: sort === UNSORTED ? "" : sort, descending: query.has("sort") ? query.get("descending") === "true" : true };
}

/** List the games of a catalogue. */
export function GamesPage() {
  const [wide] = useState(() => matchMedia("(min-width: 56rem)").matches);
  return (
    <>
      <div class="row games-head">
        <h1>{t("games")}</h1>
        <FilterField name="q" type="search" label={t("searchGames")} placeholder={t("searchGames")} bare />
      </div>
      <OpenRecord />
      <div class="library">
        <aside>
          <Disclosure title={t("filter")} open={wide}>
            <FilterForm search={false} />
            <FacetCounts />
          </Disclosure>
        </aside>
        <GameList />
      </div>
    </>
  );
}

function GameList() {
  const { query } = useRoute();
  const corpus = useCorpus();
  const filter = useFilter();
  const first = Number(query.get("first") ?? 0);
  const position = query.get("position");
  const { value, error, loading } = useGet<Games>("/api/games", {
    ...filter, corpus, position, first, count: PAGE, ...orderOf(query),
  });
  if (error) {
    return <div><p class="error" role="alert">{error}</p>{position && <RemovePosition />}</div>;
  }
  if (!value) return <p class="muted">{t("loading")}</p>;
  return (
    <section aria-busy={loading} aria-label={t("games")}>
      {position && value.line && <PositionFilter position={position} line={value.line} />}
      <div class="row spread">
        <p role="status">{t("found", { count: number(value.total) })}</p>
        {value.total > 0 && <RandomGame total={value.total} />}
        <SortChoice />
      </div>
      {!first && !position && !Object.values(filter).some(Boolean) && <Latest corpus={corpus} games={value.games} />}
      {value.games.length === 0 ? <p>{t("noGames")}</p> : (
        <table class="games">
          <thead>
            <tr>
              <SortHead column="black">{t("black")}</SortHead>
              <SortHead column="white">{t("white")}</SortHead>
              <SortHead column="date" numeric>{t("date")}</SortHead>
              <SortHead column="event">{t("event")}</SortHead>
              <SortHead column="result">{t("result")}</SortHead>
              <SortHead column="moves" numeric>{t("moves")}</SortHead>
              <th scope="col"><span class="hidden">{t("download")}</span></th>
            </tr>
          </thead>
          <tbody>{value.games.map((game) => <GameRow key={game.row} corpus={corpus} game={game} />)}</tbody>
        </table>
      )}
      <Pager first={first} count={PAGE} total={value.total} />
    </section>
  );
}

/** Show a game of the list that is drawn by chance. */
function RandomGame({ total }: { total: number }) {
  const { query } = useRoute();
  const [filter, corpus] = [useFilter(), useCorpus()];
  const [error, setError] = useState("");
  const show = async () => {
    const first = Math.floor(Math.random() * total);
    const { games } = await get<Games>("/api/games", { ...filter, corpus, position: query.get("position"), first, count: 1 });
    if (games[0]) navigate(address(`/game/${corpus}/${games[0].row}`, { ply: games[0].ply }));
  };
  return (
    <>
      <button type="button" onClick={() => show().catch((failed: Error) => setError(failed.message))}>{t("randomGame")}</button>
      {error && <p class="error" role="alert">{error}</p>}
    </>
  );
}

/** Show positions of the first games of a list as pictures. */
function Latest({ corpus, games }: { corpus: number; games: Game[] }) {
  const rows = games.filter((game) => !game.drop).slice(0, LATEST).map((game) => game.row);
  const { value } = useGet<{ row: number; ply: number; width: number; height: number; stones: number[] }[]>(
    rows.length ? "/api/games/positions" : undefined, { corpus, rows: rows.join(",") },
  );
  const named = new Map(games.map((game) => [game.row, `${game.black ?? "?"} – ${game.white ?? "?"}`]));
  return (
    <ul class="hits latest">
      {value?.map(({ row, ply, ...board }) => (
        <li key={row}>
          <a href={address(`/game/${corpus}/${row}`, { ply })}>
            <Thumbnail {...board} />
            <span class="anywhere">{named.get(row)}</span>
          </a>
        </li>
      ))}
    </ul>
  );
}

/** Show the position that narrows the list, the parameter `position` of the address, and the move that follows it. */
function PositionFilter({ position, line }: { position: string; line: ShownLine }) {
  const corpus = useCorpus();
  const filter = useFilter();
  const { width, height } = line;
  const [start = "", moves, next = ""] = position.split(".");
  const [game, ply] = start.split("-");
  // Without a board, the explorer begins on 19 x 19.
  const explored = ply === undefined ? { board: start === "19x19" ? undefined : start } : { game, ply };
  const played = fromLetters(next.slice(1), line)[0];
  const last = line.moves.at(-1);
  const stones = useMemo(() => {
    const found = stonesAfter(line, line.steps.length);
    if (played !== undefined) found[played] = next.startsWith("W") ? WHITE : BLACK;
    return found;
  }, [line, next]);
  return (
    <section class="panel row" aria-label={t("withPosition")}>
      <div style={{ width: "9rem" }}>
        <Thumbnail
          width={width}
          height={height}
          stones={stones}
          last={played ?? (last === undefined ? undefined : last & POINT_MASK)}
          label={t("withPosition")}
        />
      </div>
      <div>
        <p>
          <strong>{played === undefined ? t("withPosition") : t("withMove", { move: pointName(played, width, height) })}</strong>{" "}
          <span class="muted">({t("anyOrientation")})</span>
        </p>
        <div class="row">
          <a href={address("/explore", { corpus, ...filter, ...explored, moves })}>{t("openExplorer")}</a>
          <RemovePosition />
        </div>
      </div>
    </section>
  );
}

function RemovePosition() {
  return <button type="button" onClick={() => setFilter({ position: undefined })}>{t("allPositions")}</button>;
}

function GameRow({ corpus, game }: { corpus: number; game: Game }) {
  const target = address(`/game/${corpus}/${game.row}`, { ply: game.ply });
  const conditions = [
    game.width === 19 && game.height === 19 ? "" : `${game.width} × ${game.height}`,
    (game.handicap ?? 0) > 1 ? t("handicapStones", { count: game.handicap! }) : "",
  ].filter(Boolean).join(", ");
  return (
    <tr class={game.drop ? "dropped" : undefined}>
      <td class="black">
        <a href={target}><Player name={game.black} rank={game.black_rank} won={game.winner === "black"} /></a>
      </td>
      <td class="white"><Player name={game.white} rank={game.white_rank} won={game.winner === "white"} />{conditions && <small class="muted"> · {conditions}</small>}</td>
      <td class="number">{game.date}</td>
      <td class="event">
        {game.event}
        {game.drop && <small class="error"> {t("dropped", { reason: reasonName(game.drop) })}</small>}
      </td>
      <td>{game.result && resultName(game.result)}</td>
      <td class="number">{game.moves}</td>
      <td>
        <a href={`/api/games/${corpus}/${game.row}/sgf`} download aria-label={t("downloadOf", { row: game.row })}>
          {t("download")}
        </a>
      </td>
    </tr>
  );
}

function Player({ name, rank, won }: { name: string | null; rank: string | null; won: boolean }) {
  const shown = name ?? "?";
  return <>{won ? <strong>{shown}</strong> : shown}{rank && <span class="muted"> {rankName(rank)}</span>}</>;
}

function SortChoice() {
  const { query } = useRoute();
  const orders = {
    "date-": t("newestFirst"),
    "date": t("oldestFirst"),
    "rating-": t("strongestFirst"),
    "moves-": t("longestFirst"),
    [UNSORTED]: t("catalogueOrder"),
  };
  const { sort, descending } = orderOf(query);
  const order = (sort || UNSORTED) + (descending ? "-" : "");
  const choose = (chosen: string) =>
    setFilter({ sort: chosen.replace("-", ""), descending: chosen.endsWith("-") || undefined });
  return (
    <label class="row">
      <span class="muted">{t("sortBy")}</span>
      <select value={order} onChange={(event) => choose(event.currentTarget.value)}>
        {!(order in orders) && <option value={order}>{t("otherOrder")}</option>}
        {Object.entries(orders).map(([value, text]) => <option key={value} value={value}>{text}</option>)}
      </select>
    </label>
  );
}

function FacetCounts() {
  const { query } = useRoute();
  const { value, error } = useGet<Facets>("/api/facets", {
    ...useFilter(), corpus: useCorpus(), position: query.get("position"),
  });
  if (error) return null; // the list shows the same error
  if (!value) return <p class="muted">{t("loading")}</p>;
  const lists = [
    ["winner", t("winner"), value.winners.map(([each, count]) => [each, winnerName(each), count] as const)],
    ["handicap", t("handicap"), value.handicaps.map(([each, count]) => [each, t(each === "some" ? "handicapGames" : "evenGames"), count] as const)],
    ["board", t("boardSize"), value.boards.map(([each, count]) => [each, each.replace("x", " × "), count] as const)],
    ["player", t("players"), value.players.map(([each, count]) => [each, each, count] as const)],
    ["archive", t("archives"), value.archives.map(([each, count]) => [each, each, count] as const)],
  ] as const;
  return (
    <div class="facets">
      <Years years={value.years} />
      {lists.map(([name, title, items]) => (
        <section key={name}>
          <h2>{title}</h2>
          <CountList
            items={items.map(([each, label, count]) => ({ value: each, label, count }))}
            selected={query.get(name)}
            onPick={(each) => setFilter({ [name]: each === query.get(name) ? undefined : each })}
          />
        </section>
      ))}
    </div>
  );
}

function winnerName(winner: string): string {
  return { black: t("black"), white: t("white"), draw: t("draw") }[winner] ?? t("noWinner");
}

/** The games of each year. The first choice selects a year, the second one a range, the third one starts again. */
function Years({ years }: { years: Counts<number | null> }) {
  const { query } = useRoute();
  const from = Number(query.get("year_from") || 0);
  const to = Number(query.get("year_to") || 0);
  const known = years.filter((pair): pair is [number, number] => pair[0] !== null);
  const unknown = years.find(([year]) => year === null)?.[1] ?? 0;
  const pick = (label: string) => {
    const year = Number(label);
    if (from && from === to && year !== from) setFilter({ year_from: Math.min(year, from), year_to: Math.max(year, from) });
    else if (year === from && year === to) setFilter({ year_from: undefined, year_to: undefined });
    else setFilter({ year_from: year, year_to: year });
  };
  const bars = yearBars(known);
  const chosen = from || to ? bars.filter(({ label }) => Number(label) >= from && Number(label) <= (to || 9999)) : [];
  return (
    <section>
      <h2>{t("years")}</h2>
      <BarChart
        label={`${t("years")}. ${t("yearsHint")}`}
        bars={bars}
        selected={new Set(chosen.map(({ label }) => label))}
        onPick={pick}
      />
      {unknown > 0 && <p class="muted">{t("unknownYear", { count: number(unknown) })}</p>}
    </section>
  );
}

/** Open records from files, or from pasted text; `DropFiles` takes those that are dropped. */
function OpenRecord() {
  const [text, setText] = useState("");
  const [error, setError] = useState("");
  const open = (files: { name: string; content: Blob | string }[]) => {
    setError("");
    openFiles(files).then(navigate, (reason: Error) => setError(reason.message));
  };
  return (
    <>
      <Disclosure title={t("openSgf")}>
        <form
          class="panel open-record"
          onSubmit={(event) => {
            event.preventDefault();
            open([{ name: "", content: text }]);
          }}
        >
          <label class="field">
            <span>{t("chooseFile")}</span>
            <input
              type="file"
              multiple
              onChange={(event) => {
                const files = [...(event.currentTarget.files ?? [])];
                if (files.length) open(files.map((content) => ({ name: content.name, content })));
                event.currentTarget.value = ""; // so that the same file can be chosen again
              }}
            />
          </label>
          <label class="field">
            <span>{t("pasteSgf")}</span>
            <textarea
              class="code"
              rows={3}
              spellcheck={false}
              placeholder="(;SZ[19];B[pd];W[dp])"
              value={text}
              onInput={(event) => setText(event.currentTarget.value)}
            />
          </label>
          <button type="submit" disabled={!text.trim()}>{t("openText")}</button>
        </form>
      </Disclosure>
      {error && <p class="error" role="alert">{error}</p>}
    </>
  );
}
