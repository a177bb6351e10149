import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { address, useGet, usePost, type Params } from "../api";
import { Thumbnail } from "../board";
import { ContinuationTable, continuationHeat, LabelChoice, moveName, ResultBar, YearChart, type Continuation } from "../continuations";
import { number, percent, resultName, t, type Key } from "../i18n";
import { ANY_CELL, BLACK_CELL, Cells, CHARACTERS, EMPTY_CELL, edgesOf, PatternBoard, WHITE_CELL, type Shape } from "../pattern_board";
import { setQuery, useRoute } from "../router";
import { useCorpus, useSite } from "../site";
import { Disclosure, FilterForm, Pager, useFilter } from "../ui";

interface Hit {
  row: number;
  ply: number;
  black: string | null;
  white: string | null;
  date: string | null;
  result: string | null;
  exchanged: boolean;
  region: [x: number, y: number, width: number, height: number];
  width: number;
  height: number;
  stones: number[];
}

interface Found {
  pattern: Shape;
  hits: number;
  games: number;
  black_wins: number;
  white_wins: number;
  years: [number, number][];
  continuations: Continuation[];
  page: Hit[];
}

/** Number of hits on a page. */
const COUNT = 12;

/** Milliseconds between the last change of a pattern and its search. */
const DELAY = 250;

const TOOLS: [tool: string, label: Key][] = [
  ["2", "black"], ["4", "white"], ["1", "emptyPoint"], ["7", "anything"],
  ["3", "blackOrEmpty"], ["5", "whiteOrEmpty"], ["6", "anyStone"],
  ["black", "blackMove"], ["white", "whiteMove"],
];
const EXAMPLES: [label: Key, pattern: string][] = [
  ["crosscut", "anchor: anywhere/****/*XO*/*OX*/****"],
  ["ponnuki", "anchor: anywhere/*.X.*/.X.X./*.X.*"],
  ["headHane", "anchor: anywhere/.1../.XO./.XO./****"],
  ["invasion33", "anchor: corner/colours: fixed/....../....../..1.../...O../....../......"],
];
const PLACES: Record<string, Key> = {
  corner: "placeCorner", side: "placeSide", anywhere: "placeAnywhere", centre: "placeCentre", board: "placeBoard",
};
const LETTERS = "abcdefghijklmnopqrstuvwxy";

const BLANK: Shape = {
  text: "", width: 8, height: 8, cells: Array(64).fill(EMPTY_CELL), anchor: "corner", edges: edgesOf("corner"),
  both_colours: true, moves: [], consecutive: false, next_colour: 0, actual_colour: false, last_ply: null,
};

/** Return a pattern in text notation, in one line; the server reads it. */
function textOf(shape: Shape): string {
  const lines = [`anchor: ${shape.anchor}`];
  if (!shape.both_colours) lines.push("colours: fixed");
  if (shape.moves.length) lines.push(`moves: ${shape.moves.map(([, , colour]) => (colour === 1 ? "b" : "w")).join(" ")}`);
  if (shape.consecutive) lines.push("consecutive: yes");
  if (shape.next_colour) {
    lines.push(`next: ${shape.actual_colour ? "actual " : ""}${shape.next_colour === 1 ? "black" : "white"}`);
  }
  if (shape.last_ply !== null) lines.push(`last ply: ${shape.last_ply}`);
  const drawn = new Map<number, number>();
  const notes: string[] = [];
  shape.moves.forEach(([x, y], k) => {
    const point = y * shape.width + x;
    if (drawn.has(point) || shape.cells[point] !== EMPTY_CELL) notes.push(`${k + 1} at ${LETTERS[x]}${LETTERS[y]}`);
    else drawn.set(point, k + 1);
  });
  const between = shape.moves.length > 9 ? " " : "";
  for (let y = 0; y < shape.height; y++) {
    const row = shape.cells.slice(y * shape.width, (y + 1) * shape.width);
    lines.push(row.map((cell, x) => drawn.get(y * shape.width + x) ?? CHARACTERS[cell]).join(between));
  }
  return [...lines, ...notes].join("/");
}

/** Return a pattern with other numbers of columns and rows. */
function resized(shape: Shape, width: number, height: number): Shape {
  const cells = Array.from({ length: width * height }, (_, point) => {
    const [x, y] = [point % width, Math.floor(point / width)];
    return x < shape.width && y < shape.height ? shape.cells[y * shape.width + x]! : EMPTY_CELL;
  });
  const outside = shape.moves.findIndex(([x, y]) => x >= width || y >= height);
  return { ...shape, width, height, cells, moves: outside < 0 ? shape.moves : shape.moves.slice(0, outside) };
}

/** Return a pattern after a point is painted with a tool. */
function painted(shape: Shape, point: number, tool: string): Shape {
  const [x, y] = [point % shape.width, Math.floor(point / shape.width)];
  const before = shape.moves.findIndex((move) => move[0] === x && move[1] === y);
  if (tool === "black" || tool === "white") {
    if (before >= 0) return { ...shape, moves: shape.moves.slice(0, before) };
    const cells = shape.cells.map((cell, k) => (k === point ? EMPTY_CELL : cell));
    return { ...shape, cells, moves: [...shape.moves, [x, y, tool === "black" ? 1 : 2]] };
  }
  const cells = shape.cells.map((cell, k) => (k === point ? Number(tool) : cell));
  return { ...shape, cells, moves: before >= 0 ? shape.moves.slice(0, before) : shape.moves };
}

/** Return false for patterns that the server refuses since they ask for nothing. */
function asks(shape: Shape): boolean {
  return shape.moves.length > 0 || shape.cells.some((cell) => (cell & (BLACK_CELL | WHITE_CELL)) !== 0 && cell !== ANY_CELL);
}

/** Return a value once it has not changed for a while. */
function useDelayed<T>(value: T): T {
  const [delayed, setDelayed] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setDelayed(value), DELAY);
    return () => clearTimeout(timer);
  }, [value]);
  return delayed;
}

/** Search for patterns: the pattern, in text notation, and the choice of games are in the address. */
export function PatternsPage() {
  const { query } = useRoute();
  const corpus = useCorpus();
  const filter = useFilter();
  const { indexed, name } = useSite().corpora[corpus]!;
  const text = query.get("pattern") ?? "";
  const written = useRef<Shape>(BLANK);
  const [draft, setDraft] = useState<Shape>(BLANK);
  const [tool, setTool] = useState("2");
  const origin: Params = text ? { pattern: text } : { corpus, game: query.get("game"), ply: query.get("ply"), moves: query.get("moves") };
  const wanted = text ? text !== written.current.text : query.has("game") || query.has("moves");
  const read = useGet<Shape>(wanted ? "/api/pattern" : undefined, origin);

  useEffect(() => {
    if (!read.value || !wanted) return;
    written.current = { ...read.value, text: text || textOf(read.value) };
    setDraft(written.current);
    if (!text) setQuery({ pattern: written.current.text, game: undefined, ply: undefined, moves: undefined }, true);
  }, [read.value]);
  useEffect(() => {
    if (!text && !wanted && written.current.text) {
      written.current = BLANK;
      setDraft(BLANK);
    }
  }, [text, wanted]);

  const latest = useRef(draft);
  latest.current = draft;
  const commit = (shape: Shape) => {
    const next = { ...shape, edges: edgesOf(shape.anchor) };
    next.text = asks(next) ? textOf(next) : "";
    written.current = next;
    setDraft(next);
    setQuery({ pattern: next.text, first: undefined });
  };
  const paint = (point: number, erase: boolean) => {
    latest.current = painted(latest.current, point, erase ? "1" : tool);
    setDraft(latest.current);
  };

  const first = Math.max(0, Number(query.get("first") ?? 0) || 0);
  const searched = useDelayed(text);
  const given = Object.fromEntries(
    Object.entries(filter).filter(([, value]) => value !== null && value !== "")
      .map(([key, value]) => [key, ["year_from", "year_to", "rating"].includes(key) ? Number(value) : value]),
  );
  const { value, error, loading } = usePost<Found>(
    "/api/search",
    searched && searched === text && !read.error ? { ...given, corpus, pattern: searched, first, count: COUNT, every: query.get("every") === "1" } : undefined,
  );
  const shares = query.get("labels") === "shares";
  const heat = useMemo(() => continuationHeat(value?.continuations ?? [], draft.width, shares), [value, shares, draft.width]);
  const sizes = Array.from({ length: 19 }, (_, k) => k + 1);
  const change = (changes: Partial<Shape>) => commit({ ...draft, ...changes });

  return (
    <>
      <h1>{t("search")}</h1>
      {!indexed && <p class="remark">{t("noIndex", { name })}</p>}
      <Disclosure title={t("filter")} open={Object.keys(given).length > 0}><FilterForm /></Disclosure>
      <div class="columns">
        <section>
          <div class="row palette" role="group" aria-label={t("palette")}>
            {TOOLS.map(([value, label]) => (
              <button
                key={value}
                type="button"
                title={t(label)}
                aria-pressed={tool === value}
                onClick={() => setTool(value)}
              >
                <ToolPicture tool={value} />
                <span class="hidden">{t(label)}</span>
              </button>
            ))}
            <button type="button" onClick={() => change({ cells: draft.cells.map(() => EMPTY_CELL), moves: [] })}>
              {t("clearPattern")}
            </button>
          </div>
          <p class="muted" aria-hidden="true">{t(TOOLS.find(([value]) => value === tool)![1])}</p>
          <PatternBoard shape={draft} heat={text ? heat : undefined} onPaint={paint} onEnd={() => commit(latest.current)} />
          <div class="filter pattern-settings">
            {(["width", "height"] as const).map((side) => (
              <label class="field" key={side}>
                <span>{t(side === "width" ? "columns" : "rows")}</span>
                <select
                  value={draft[side]}
                  onChange={(event) => {
                    const size = { width: draft.width, height: draft.height, [side]: Number(event.currentTarget.value) };
                    commit(resized(draft, size.width, size.height));
                  }}
                >
                  {sizes.map((size) => <option key={size} value={size}>{size}</option>)}
                </select>
              </label>
            ))}
            <label class="field">
              <span>{t("place")}</span>
              <select value={draft.anchor} onChange={(event) => change({ anchor: event.currentTarget.value })}>
                {!(draft.anchor in PLACES) && <option value={draft.anchor}>{draft.anchor}</option>}
                {Object.entries(PLACES).map(([anchor, label]) => <option key={anchor} value={anchor}>{t(label)}</option>)}
              </select>
            </label>
            <label class="field">
              <span>{t("nextPlayer")}</span>
              <select
                value={draft.next_colour}
                onChange={(event) => change({ next_colour: Number(event.currentTarget.value), actual_colour: false })}
              >
                <option value={0}>{t("any")}</option>
                <option value={1}>{t("black")}</option>
                <option value={2}>{t("white")}</option>
              </select>
            </label>
            <label class="field">
              <span>{t("lastPly")}</span>
              <input
                type="number"
                min={0}
                max={2000}
                value={draft.last_ply ?? ""}
                onChange={(event) => change({ last_ply: event.currentTarget.value === "" ? null : Math.min(2000, Math.max(0, Math.floor(Number(event.currentTarget.value)))) })}
              />
            </label>
          </div>
          <div class="row">
            <label>
              <input
                type="checkbox"
                checked={draft.both_colours}
                onChange={(event) => change({ both_colours: event.currentTarget.checked })}
              />{" "}
              {t("eitherColour")}
            </label>
            {draft.moves.length > 0 && (
              <label>
                <input
                  type="checkbox"
                  checked={draft.consecutive}
                  onChange={(event) => change({ consecutive: event.currentTarget.checked })}
                />{" "}
                {t("consecutive")}
              </label>
            )}
          </div>
          <Disclosure title={t("patternText")} open={Boolean(read.error)}>
            <TextForm text={text} error={read.error} />
          </Disclosure>
        </section>
        <section aria-busy={loading}>
          {!text && <Hint />}
          {loading && <p class="muted">{t("loading")}</p>}
          {error && <p class="error" role="alert">{error}</p>}
          {value && text && (value.hits > 0 ? <Counts {...{ value, shares }} /> : <p>{t("noHits")}</p>)}
        </section>
      </div>
      {value && text && value.hits > 0 && <HitList {...{ value, corpus, first }} />}
    </>
  );
}

/** A point of the board as a tool paints it. */
function ToolPicture({ tool }: { tool: string }) {
  const shape = painted({ ...BLANK, width: 1, height: 1, cells: [EMPTY_CELL], edges: [false, false, false, false] }, 0, tool);
  return <svg class="cells" viewBox="0 0 1 1" aria-hidden="true"><Cells shape={shape} /></svg>;
}

function Hint() {
  const kept = Object.fromEntries(useRoute().query);
  return (
    <div class="panel">
      <p>{t("patternHint")}</p>
      <p class="row">
        {t("patternExamples")}
        {EXAMPLES.map(([label, pattern]) => (
          <a key={label} class="button" href={address("/search", { ...kept, pattern })}>{t(label)}</a>
        ))}
      </p>
    </div>
  );
}

function TextForm({ text, error }: { text: string; error: string | undefined }) {
  const [draft, setDraft] = useState("");
  useEffect(() => setDraft(text.replaceAll("/", "\n")), [text]);
  return (
    <form
      class="field"
      onSubmit={(event) => {
        event.preventDefault();
        setQuery({ pattern: draft.trim().split(/\r?\n/).join("/"), first: undefined });
      }}
    >
      <label class="field">
        <span>{t("patternTextLabel")}</span>
        <textarea
          class="code"
          rows={12}
          maxLength={4000}
          spellcheck={false}
          value={draft}
          aria-invalid={Boolean(error)}
          onInput={(event) => setDraft(event.currentTarget.value)}
        />
      </label>
      {error && <p class="error" role="alert">{error}</p>}
      <div class="row"><button type="submit">{t("apply")}</button></div>
    </form>
  );
}

function Counts({ value, shares }: { value: Found; shares: boolean }) {
  const decided = value.black_wins + value.white_wins;
  const { width, height, anchor } = value.pattern;
  return (
    <>
      <p aria-live="polite">
        <strong>{t("patternHits", { hits: number(value.hits), games: number(value.games) })}</strong>
        {decided > 0 && (
          <> · {t("winShares", { black: percent(value.black_wins / decided), white: percent(value.white_wins / decided) })}</>
        )}
      </p>
      {decided > 0 && <ResultBar black={value.black_wins / decided} />}
      <div class="row spread">
        <h2>{t("continuations")}</h2>
        <LabelChoice shares={shares} onChange={(on) => setQuery({ labels: on ? "shares" : undefined }, true)} />
      </div>
      {anchor !== "board" && <p class="muted">{t("letterHint")}</p>}
      <ContinuationTable
        key={value.pattern.text}
        found={value.continuations}
        years={value.years}
        name={(each) => moveName(each, width, height, anchor === "board")}
      />
      <YearChart years={value.years} />
    </>
  );
}

function HitList({ value, corpus, first }: { value: Found; corpus: number; first: number }) {
  const every = useRoute().query.get("every") === "1";
  return (
    <section>
      <div class="row spread">
        <h2>{t("hitPages")}</h2>
        <label>
          <input
            type="checkbox"
            checked={every}
            onChange={(event) => setQuery({ every: event.currentTarget.checked ? 1 : undefined, first: undefined }, true)}
          />{" "}
          {t("everyHit")}
        </label>
      </div>
      <ul class="hits">
        {value.page.map((hit, k) => {
          const [x, y, width, height] = hit.region;
          const players = `${hit.black ?? "?"} – ${hit.white ?? "?"}`;
          return (
            <li key={k}>
              <a href={address(`/game/${corpus}/${hit.row}`, { ply: hit.ply })}>
                <span class="hit-board">
                  <Thumbnail width={hit.width} height={hit.height} stones={hit.stones} />
                  <svg viewBox={`-.2 -.2 ${hit.width + 0.4} ${hit.height + 0.4}`} aria-hidden="true">
                    <rect class="region" x={x} y={y} width={width} height={height} />
                  </svg>
                </span>
                <span class="anywhere">{players}</span>
              </a>
              <span class="muted anywhere">
                {[hit.date, hit.result && resultName(hit.result), t("hitMove", { ply: hit.ply }), hit.exchanged && t("hitExchanged")].filter(Boolean).join(", ")}
              </span>
            </li>
          );
        })}
      </ul>
      <Pager first={first} count={COUNT} total={every ? value.hits : value.games} />
    </section>
  );
}
