// The review of a game by a net: its analysis as it grows, the chart, mistakes, and tables of expected moves.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { address, POINT_MASK, post, usePost, WHITE_BIT, type Line } from "./api";
import { pointName } from "./board";
import { number, percent, t, useLanguage } from "./i18n";
import { useRoute } from "./router";
import { Disclosure } from "./ui";

/** The answer of POST /api/predict. */
export interface Prediction {
  policy: [number, number][];
  pass: number | null;
  ownership: number[] | null;
  /** Probability and choice of the move played. */
  played: [number, number] | null;
  to_play: number;
}

/** The answer of POST /api/candidates: values of a position, which are those after its best move, and after each move. */
export interface Values {
  /** Black's winning probability and lead in points, and the points that the move played loses. */
  win: number | null;
  lead: number | null;
  loss: number | null;
  moves: [move: number, win: number | null, lead: number | null][];
}

/**
 * For a position of a game: probability and choice of the move played, Black's winning probability and lead, the best
 * move (the likeliest, of a net without points) and its probability, and the points that the move played loses.
 */
export type Row = [
  chance: number | null, choice: number | null, win: number | null, lead: number | null, best: number | null, bestChance: number | null,
  loss: number | null,
];

export interface Analysis {
  rows: Row[];
  /** Number of positions; 0 before the first answer. */
  total: number;
  error?: string;
}

/** Number of moves of a rank in tables, of one and of each of two. */
const [MOVES_IN_TABLE, MOVES_OF_TWO] = [6, 4];
/** Number of moves of each player in lists, of those on which ranks differ, and points that a mistake loses at least. */
const [LEAST_EXPECTED, MISTAKES, DIFFERENT] = [5, 3, 10];
export const LEAST_LOSS = 1;

/** Analyse a whole line in parts. */
export async function analyse(body: object, signal: AbortSignal, onPart: (analysis: Analysis) => void): Promise<Row[]> {
  const rows: Row[] = [];
  for (let total = 1; rows.length < total; ) {
    const part = await post<Analysis>("/api/analyse", { ...body, first: rows.length }, signal);
    rows.push(...part.rows);
    total = part.total;
    onPart({ rows: rows.slice(), total });
  }
  return rows;
}

/** Analyse a line whenever the body of the request changes. */
export function useAnalysis(body: object | undefined): Analysis {
  const key = body && JSON.stringify(body);
  const [state, setState] = useState<Analysis>({ rows: [], total: 0 });
  useEffect(() => {
    setState({ rows: [], total: 0 });
    if (!key) return undefined;
    const control = new AbortController();
    analyse(JSON.parse(key), control.signal, setState).catch((error: Error) => {
      if (!control.signal.aborted) setState((old) => ({ ...old, error: error.message }));
    });
    return () => control.abort();
  }, [key]);
  return state;
}

/** Return a lead in points, such as B+2.3. */
export function leadText(lead: number): string {
  return t(lead < 0 ? "leadWhite" : "leadBlack", { points: number(Math.abs(lead), 1) });
}

/** Return " · 2.3 points lost", or nothing without points or a loss. */
function lossText(loss: number | null | undefined): string {
  return loss && loss >= 0.05 ? ` · ${t("lossPoints", { loss: number(loss, 1) })}` : "";
}

/** Return the values of a position in words. */
export function valueText(win: number | null | undefined, lead: number | null | undefined): string {
  return [typeof win === "number" && t("winBlack", { share: percent(win, 0) }), typeof lead === "number" && leadText(lead)]
    .filter(Boolean).join(" · ");
}

/** Return the place of a move among the choices, such as 4th. */
function place(choice: number, language: string): string {
  if (language !== "en") return String(choice);
  const ending = { one: "st", two: "nd", few: "rd" }[new Intl.PluralRules("en", { type: "ordinal" }).select(choice) as "one"] ?? "th";
  return choice + ending;
}

/** Buttons for the moves of a line, of which the first `shown` are on the board. */
export function MoveButtons(props: {
  label: string; line: Line; points: number[]; shown: number; onPick: (shown: number) => void; children: ComponentChildren;
}) {
  const { label, line, points, shown } = props;
  return (
    <nav class="row" aria-label={label}>
      <span>{label}</span>
      {points.map((point, k) => (
        <button type="button" key={k} aria-current={k + 1 === shown ? "step" : undefined} onClick={() => props.onPick(k + 1)}>
          {pointName(point, line.width, line.height)}
        </button>
      ))}
      {props.children}
    </nav>
  );
}

interface TopMovesProps {
  caption: string;
  /** A request, or one for each of two ranks, whose names are the heads of their columns. */
  bodies: object[];
  ranks: string[];
  line: Line;
  /** The point of the move played; undefined if the line ends. */
  played: number | undefined;
  onPick: (point: number) => void;
  /** Columns of the winning probability and the lead after a move. */
  hasWin: boolean;
  hasLead: boolean;
  values: Values | undefined;
}

/** Show the moves that a net expects, of two ranks those first whose chances differ most, with the values after them. */
export function TopMoves({ caption, bodies, ranks, line, played, onPick, hasWin, hasLead, values }: TopMovesProps) {
  const [language] = useLanguage();
  const loaded = [usePost<Prediction>("/api/predict", bodies[0]), usePost<Prediction>("/api/predict", bodies[1])].slice(0, bodies.length);
  const answers = loaded.flatMap(({ value }) => value ?? []);
  const value = answers.length === bodies.length ? answers[0] : undefined;
  const { width, height } = line;
  const likely = value ? answers.flatMap(({ policy }) => policy.slice(0, answers.length > 1 ? MOVES_OF_TWO : MOVES_IN_TABLE)) : [];
  const points = new Set(likely.map(([point]) => point));
  if (value && played !== undefined) points.add(played);
  const chances = answers.map(({ policy }) => new Map(policy));
  const chance = (k: number, point: number) =>
    point === played ? answers[k]!.played?.[0] ?? null : chances[k]!.get(point) ?? 0;
  const difference = (point: number) => Math.abs((chance(0, point) ?? 0) - (chance(1, point) ?? 0));
  const rows = answers.length > 1 ? [...points].sort((a, b) => difference(b) - difference(a)) : [...points];
  const found = new Map(values?.moves.map(([point, ...rest]) => [point, rest]));
  const missing = values ? "–" : "…";
  return (
    <div>
      {loaded.map(({ error }) => error && <p class="error" role="alert" key={error}>{error}</p>)}
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>
            <th>{t("moveLabel")}</th>
            {bodies.map((_, k) => <th class="number" key={k}>{bodies.length > 1 ? t("chanceAt", { rank: ranks[k]! }) : t("chance")}</th>)}
            {hasWin && <th class="number">{t("blackWins")}</th>}
            {hasLead && <th class="number">{t("points")}</th>}
          </tr>
        </thead>
        <tbody aria-busy={loaded.some(({ loading }) => loading)}>
          {(value ? rows : []).map((point) => {
            const [win, lead] = found.get(point) ?? [];
            return (
              <tr key={point} class={point === played ? "probability chosen" : "probability"} style={{ "--share": `${100 * (chance(0, point) ?? 0)}%` }}>
                <td>
                  <button type="button" class="plain" onClick={() => onPick(point)}>{pointName(point, width, height)}</button>
                  {point === played && <small> {t("playedMark")}</small>}
                </td>
                {answers.map((_, k) => {
                  const share = chance(k, point);
                  return <td class="number" key={k}>{share === null ? "–" : percent(share)}</td>;
                })}
                {hasWin && <td class="number">{typeof win === "number" ? percent(win, 0) : missing}</td>}
                {hasLead && <td class="number">{typeof lead === "number" ? leadText(lead) : missing}</td>}
              </tr>
            );
          })}
          {!value && Array.from({ length: MOVES_IN_TABLE }, (_, k) => <tr key={k}><td>&nbsp;</td><td /></tr>)}
        </tbody>
      </table>
      <p>
        {value && played !== undefined && (value.played
          ? t("playedText", { move: pointName(played, width, height), place: place(value.played[1], language), share: percent(value.played[0], 0) })
          : t("playedUnknown", { move: pointName(played, width, height) }))}
        {hasLead && lossText(values?.loss)}
        &nbsp;
      </p>
      {typeof value?.pass === "number" && value.pass >= 0.01 && <p class="muted">{t("passShare", { share: percent(value.pass, 0) })}</p>}
    </div>
  );
}

const CHART_HEIGHT = 100;
/** Negative log-probability of the longest bar, and points of the chart's edge at least. */
const LONGEST = 10;
const LEAST_POINTS = 10;

/** Show the progress of an analysis; then winning probability, lead and surprise of each move. */
export function AnalysisChart(props: { analysis: Analysis; line: Line; ply: number; onPick: (ply: number) => void }) {
  const { analysis: { rows, total }, ply } = props;
  const count = Math.max(total - 1, 1);
  const width = 600 / count;
  const wins = rows.map((row) => row[2]);
  const leads = rows.map((row) => row[3]);
  const edge = Math.max(LEAST_POINTS, ...leads.map((lead) => Math.ceil(Math.abs(lead ?? 0) / 10) * 10));
  const at = Math.min(ply, rows.length - 1);
  const [chance, , win, lead, , , loss] = rows[at] ?? [];
  const text = [
    t("chartMove", { ply: at + 1 }),
    typeof chance === "number" && t("chartChance", { share: percent(chance, 0) }),
    valueText(win, lead),
  ].filter(Boolean).join(" · ") + lossText(loss);
  const curve = (values: (number | null)[], height: (value: number) => number) =>
    values.flatMap((value, k) => (value === null ? [] : [`${(k * width).toFixed(1)},${height(value).toFixed(1)}`])).join(" ");
  const hasWin = wins.some((each) => each !== null);
  const hasLead = leads.some((each) => each !== null);
  return (
    <section class="panel" aria-labelledby="by-move">
      <h2 id="by-move">{t("chartByMove")}</h2>
      {rows.length < total && (
        <p role="status">
          {t("analysed", { count: rows.length, total })} <progress max={total} value={rows.length} aria-label={t("chartByMove")} />
        </p>
      )}
      <svg
        class="analysis-chart"
        viewBox={`0 0 600 ${CHART_HEIGHT}`}
        preserveAspectRatio="none"
        role="slider"
        tabIndex={0}
        aria-label={t("chartByMove")}
        aria-valuemin={0}
        aria-valuemax={count}
        aria-valuenow={ply}
        aria-valuetext={text}
        onClick={(event) => {
          const box = event.currentTarget.getBoundingClientRect();
          props.onPick(Math.floor(((event.clientX - box.left) / box.width) * count));
        }}
      >
        {rows.map(([each], k) => {
          const size = each === null ? 0 : Math.min(-Math.log(each) / LONGEST, 1) * CHART_HEIGHT;
          return <rect key={k} class="analysis-bar" x={k * width} y={CHART_HEIGHT - size} width={width * 0.8} height={size} />;
        })}
        <line class="analysis-even" x1="0" x2="600" y1={CHART_HEIGHT / 2} y2={CHART_HEIGHT / 2} />
        <polyline class="analysis-value" points={curve(wins, (value) => (1 - value) * CHART_HEIGHT)} />
        <polyline class="analysis-lead" points={curve(leads, (value) => (0.5 - value / (2 * edge)) * CHART_HEIGHT)} />
        <line class="analysis-here" x1={at * width} x2={at * width} y1="0" y2={CHART_HEIGHT} />
      </svg>
      <p>{text}</p>
      <p class="muted">
        <span class="swatch analysis-bar" /> {t("chartBars")}
        {hasWin && <><br /><span class="swatch swatch_line" /> {t("chartLine")}</>}
        {hasLead && <><br /><span class="swatch swatch_line swatch_lead" /> {t("chartLead", { edge })}</>}
      </p>
    </section>
  );
}

/** Lists of moves of Black and of White, each with the number of moves before it and a link to the position. */
function MovesBySide({ line, moves }: { line: Line; moves: { ply: number; text: string }[] }) {
  const { query } = useRoute();
  const kept = Object.fromEntries(query);
  return (
    <div class="side-by-side">
      {([0, WHITE_BIT] as const).map((bit) => (
        <div key={bit}>
          <h3>{t(bit ? "white" : "black")}</h3>
          <ol>
            {moves.filter(({ ply }) => (line.moves[ply]! & WHITE_BIT) === bit).map(({ ply, text }) => (
              <li key={ply}><a href={address(location.pathname, { ...kept, line: undefined, ply })}>{text}</a></li>
            ))}
          </ol>
        </div>
      ))}
    </div>
  );
}

/** List the moves of a game: those that lost most points, those that the net expected least, and all. */
export function ReviewedMoves({ rows, line }: { rows: Row[]; line: Line }) {
  const name = (point: number) => pointName(point, line.width, line.height);
  const point = (ply: number) => line.moves[ply]! & POINT_MASK;
  const moves = rows.slice(0, line.moves.length).map(([chance, , , , best, , loss], ply) => ({ ply, chance: chance ?? 0, best, loss }));
  const ofBoth = (ordered: typeof moves, count: number) =>
    [0, WHITE_BIT].flatMap((bit) => ordered.filter(({ ply }) => (line.moves[ply]! & WHITE_BIT) === bit).slice(0, count));
  const mistakes = ofBoth(moves.filter(({ loss }) => (loss ?? 0) >= LEAST_LOSS).sort((a, b) => b.loss! - a.loss!), MISTAKES).map(({ ply, best, loss }) => ({
    ply, text: t("mistake", { number: ply + 1, point: name(point(ply)), better: name(best!), loss: number(loss!, 1) }),
  }));
  const listed = ({ ply, chance, loss }: typeof moves[number]) =>
    ({ ply, text: t("numbered", { number: ply + 1, point: name(point(ply)), share: percent(chance, 2) }) + lossText(loss) });
  const least = ofBoth(moves.filter(({ ply }) => rows[ply]![0] !== null).sort((a, b) => a.chance - b.chance), LEAST_EXPECTED);
  const parts = [["mistakes", mistakes], ["leastExpected", least.map(listed)]] as const;
  return (
    <>
      {parts.filter(([, each]) => each.length).map(([key, each]) => (
        <section class="panel" aria-labelledby={key} key={key}>
          <h2 id={key}>{t(key)}</h2>
          <MovesBySide line={line} moves={each} />
        </section>
      ))}
      <Disclosure title={t("allMoves")}><MovesBySide line={line} moves={moves.map(listed)} /></Disclosure>
    </>
  );
}

/** List the moves of a game whose chances at two ranks differ most. */
export function DifferentMoves({ bodies, ranks, line }: { bodies: [object, object]; ranks: [string, string]; line: Line }) {
  const analyses = [useAnalysis({ ...bodies[0], moves: 0 }), useAnalysis({ ...bodies[1], moves: 0 })];
  if (analyses.some(({ total, rows }) => !total || rows.length < total)) return null;
  const [first, second] = ranks;
  const [own, other] = analyses.map(({ rows }) => rows.map(([chance]) => chance));
  const moves = line.moves.map((word, ply) => ({ ply, point: word & POINT_MASK, one: own![ply] ?? 0, two: other![ply] ?? 0 }));
  const most = moves.sort((a, b) => Math.abs(b.one - b.two) - Math.abs(a.one - a.two)).slice(0, DIFFERENT).map(({ ply, point, one, two }) => ({
    ply,
    text: t("rankDifference", {
      number: ply + 1, point: pointName(point, line.width, line.height), first, one: percent(one, 0), second, two: percent(two, 0),
    }),
  }));
  return (
    <section class="panel" aria-labelledby="different">
      <h2 id="different">{t("rankDifferences", { first, second })}</h2>
      <MovesBySide line={line} moves={most} />
    </section>
  );
}
