// The continuations of a position or a pattern: labels on the board, a table, counts by year.
import { useState } from "preact/hooks";
import { HEAT_STEPS, pointName, type Heat } from "./board";
import { number, percent, ratingName, t } from "./i18n";
import { BarChart, Sparkline, yearBars } from "./ui";

export interface Continuation {
  x: number | null;
  y: number | null;
  colour: "black" | "white" | null;
  is_pass: boolean;
  count: number;
  share: number;
  win_rate: number | null;
  win_low: number | null;
  win_high: number | null;
  rating: number | null;
  first_year: number | null;
  last_year: number | null;
  recent: number[];
  strongest: number[];
  letter: string | null;
  years: [number, number][];
}

/** Number of rows that a table shows at first, and the smallest share of one. */
const SHOWN = 15;
const RARE = 0.005;

/** Return the labels of continuations on a board, their letters or their shares. */
export function continuationHeat(found: Continuation[], width: number, shares: boolean): Map<number, Heat> {
  const heat = new Map<number, Heat>();
  for (const each of found) {
    if (each.x === null || each.y === null || heat.has(each.y * width + each.x)) continue;
    const strength = Math.max(1, HEAT_STEPS.filter((step) => each.share >= step).length);
    const share = each.share < 0.01 ? "<1" : String(Math.round(100 * each.share));
    const said = [each.letter, colourName(each), number(each.count), percent(each.share)].filter(Boolean).join(", ");
    heat.set(each.y * width + each.x, { strength, text: shares ? share : (each.letter ?? "·"), label: said });
  }
  return heat;
}

function colourName(each: Continuation): string {
  return each.colour === null ? "" : t(each.colour);
}

/** Return the name of a continuation: a vertex of a whole board, else its letter on the diagram or column and row. */
export function moveName(each: Continuation, width: number, height: number, board: boolean): string {
  if (each.x === null || each.y === null) return each.is_pass ? t("pass") : t("noMove");
  if (board) return pointName(each.y * width + each.x, width, height);
  return each.letter ?? t("columnRow", { column: each.x + 1, row: each.y + 1 });
}

/** Show the shares of games that Black and White won as a bar. */
export function ResultBar({ black, title }: { black: number; title?: string }) {
  const text = (share: number) => (share < 0.25 ? "" : percent(share, 0));
  const label = t("winShares", { black: percent(black), white: percent(1 - black) });
  return (
    <span class="result-bar" role="img" aria-label={title ? `${label}. ${title}` : label} title={title ?? label}>
      <span class="result-bar_black" style={{ width: `${100 * black}%` }}>{text(black)}</span>
      <span class="result-bar_white">{text(1 - black)}</span>
    </span>
  );
}

export interface ContinuationsProps {
  found: Continuation[];
  /** The name of each continuation. */
  name: (each: Continuation) => string;
  /** All years, with the number of occurrences. */
  years: [number, number][];
  selected?: Continuation;
  onPick?: (each: Continuation) => void;
}

/** List continuations. */
export function ContinuationTable({ found, name, years, selected, onPick }: ContinuationsProps) {
  const [all, setAll] = useState(false);
  if (!found.length) return null;
  const common = found.filter((each, k) => k < SHOWN && (each.share >= RARE || k < 3));
  const shown = all ? found : common;
  const rare = found.slice(common.length).reduce((sum, each) => sum + each.count, 0);
  const series = (each: Continuation) => {
    const counts = new Map(each.years);
    return years.map(([year, total]) => (counts.get(year) ?? 0) / total);
  };
  const span = (each: Continuation) => (each.first_year === each.last_year ? [each.first_year] : [each.first_year, each.last_year]);
  return (
    <>
      <div class="scroll" role="region" tabIndex={0} aria-label={t("continuations")}>
        <table class="continuations">
          <thead>
            <tr>
              <th scope="col">{t("nextMove")}</th>
              <th scope="col" class="number">{t("timesPlayed")}</th>
              <th scope="col" class="number">{t("shareOfAll")}</th>
              <th scope="col">{t("winRate")}</th>
              <th scope="col" class="number">{t("meanRating")}</th>
              <th scope="col">{t("yearsPlayed")}</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((each) => {
              const spanned = span(each).filter((year) => year !== null).join("–");
              const text = each.letter && each.letter !== name(each)
                ? <><b class="letter">{each.letter}</b> {name(each)}</> : <b class="letter">{name(each)}</b>;
              return (
                <tr key={`${each.x} ${each.y} ${each.colour} ${each.is_pass}`} class={each === selected ? "chosen" : undefined}>
                  <td>
                    {each.colour && <span class={`stone stone_${each.colour}`} role="img" aria-label={t(each.colour)} />}
                    {onPick && each.colour ? (
                      <button type="button" class="plain whole-row" onClick={() => onPick(each)}>{text}</button>
                    ) : (
                      text
                    )}
                  </td>
                  <td class="number">{number(each.count)}</td>
                  <td class="number">{percent(each.share)}</td>
                  <td>
                    {each.win_rate !== null && (
                      <ResultBar
                        black={each.colour === "white" ? 1 - each.win_rate : each.win_rate}
                        title={t("winInterval", { rate: percent(each.win_rate), low: percent(each.win_low!, 0), high: percent(each.win_high!, 0) })}
                      />
                    )}
                  </td>
                  <td class="number">{each.rating !== null && ratingName(each.rating)}</td>
                  <td>
                    {years.length > 1 && <Sparkline values={series(each)} label={`${name(each)}, ${spanned}`} width={60} />}{" "}
                    <span class="muted interval">{spanned}</span>
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {found.length > shown.length && (
        <button
          type="button"
          onClick={({ currentTarget }) => {
            // The button disappears; Tab goes on to the first of the rare moves.
            currentTarget.previousElementSibling!.querySelector<HTMLElement>("tr:last-child button")?.focus();
            setAll(true);
          }}
        >
          {t("rareMoves", { count: number(found.length - shown.length), games: number(rare) })}
        </button>
      )}
    </>
  );
}

/** Show the number of occurrences by year. */
export function YearChart({ years }: { years: [number, number][] }) {
  if (!years.length) return null;
  return (
    <>
      <h2>{t("byYear")}</h2>
      <BarChart label={t("byYear")} bars={yearBars(years)} />
    </>
  );
}

/** Choose between letters and shares on the board. */
export function LabelChoice({ shares, onChange }: { shares: boolean; onChange: (shares: boolean) => void }) {
  return (
    <label>
      {t("labelsOnBoard")}{" "}
      <select value={shares ? "shares" : "letters"} onChange={(event) => onChange(event.currentTarget.value === "shares")}>
        <option value="letters">{t("labelLetters")}</option>
        <option value="shares">{t("labelShares")}</option>
      </select>
    </label>
  );
}
