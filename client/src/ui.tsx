// Parts of several pages: filter, tables, charts. Filter, order and page are parameters of the address.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Params } from "./api";
import { number, rankName, ratingName, t, type Key } from "./i18n";
import { navigate, setQuery, useRoute } from "./router";
import { openFiles } from "./uploads";

/** The parameters of a choice of games, as `kifu.web.site.Filter` has them. */
export const FILTER = [
  "q", "player", "colour", "year_from", "year_to", "rating", "winner", "handicap", "board", "archive", "sql",
] as const;

/** Where a tab stores the condition in SQL that its user has run. */
const RUN = "condition";

/** Return the condition in SQL of the address unless the user has run it in this tab: a link may come from anyone. */
function usePendingCondition(): string {
  const sql = useRoute().query.get("sql") ?? "";
  return sessionStorage.getItem(RUN) === sql ? "" : sql;
}

function runCondition(sql: string, replace = false): void {
  sessionStorage.setItem(RUN, sql);
  setFilter({ sql }, replace);
}

/** Return the choice of games in the address, as the endpoints take it, without a condition that has not been run. */
export function useFilter(): Params {
  const { query } = useRoute();
  const pending = usePendingCondition();
  return Object.fromEntries(FILTER.map((name) => [name, name === "sql" && pending ? null : query.get(name)]));
}

/** Show a condition that came with a link, and run it on a click. */
export function PendingCondition() {
  const sql = usePendingCondition();
  if (!sql) return null;
  return (
    <section class="panel" role="status">
      <p>{t("pendingCondition")}</p>
      <p class="code anywhere">{sql}</p>
      <div class="row">
        <button type="button" onClick={() => runCondition(sql, true)}>{t("runCondition")}</button>
        <button type="button" onClick={() => setFilter({ sql: undefined }, true)}>{t("clear")}</button>
      </div>
    </section>
  );
}

/** Step through moves by keys, wherever the focus is, but for fields: it is lost when a chosen move disappears. */
export function useStepKeys(step: (by: number) => void) {
  // Not useEffect, which runs late: a second key would step from the position before.
  useLayoutEffect(() => {
    const keyDown = (event: KeyboardEvent) => {
      const inField = (event.target as Element).matches?.("input, select, textarea");
      const by = { Backspace: -1, ArrowLeft: -1, ArrowRight: 1, ArrowUp: -10, ArrowDown: 10, PageUp: -10, PageDown: 10, Home: -1e6, End: 1e6 }[event.key];
      if (inField || event.ctrlKey || event.metaKey || event.altKey || by === undefined) return;
      event.preventDefault();
      step(by);
    };
    addEventListener("keydown", keyDown);
    return () => removeEventListener("keydown", keyDown);
  });
}

/** Open files that are dropped anywhere on the page. */
export function DropFiles() {
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    const over = (event: DragEvent) => {
      if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
    };
    const drop = (event: DragEvent) => {
      const files = [...(event.dataTransfer?.files ?? [])];
      if (!files.length) return;
      event.preventDefault();
      setError("");
      setBusy(true);
      openFiles(files.map((content) => ({ name: content.name, content })))
        .then(navigate, (reason: Error) => setError(reason.message))
        .finally(() => setBusy(false));
    };
    addEventListener("dragover", over);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("dragover", over);
      removeEventListener("drop", drop);
    };
  }, []);
  if (busy) return <p class="muted" role="status">{t("loading")}</p>;
  return error ? <p class="error" role="alert">{error}</p> : null;
}

/** Change the choice of games; lists begin anew. */
export function setFilter(changes: Params, replace = false): void {
  setQuery({ ...changes, first: undefined, at: undefined, answers: undefined }, replace);
}

/** Ratings of the filter, see `kifu.Rank.rating`. */
const RATINGS = [12, 17, 22, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 43, 45, 47, 49];

/** Ranks that nets take. */
export const RANKS = [...Array.from({ length: 18 }, (_, k) => `${18 - k}k`), ...Array.from({ length: 9 }, (_, k) => `${k + 1}d`), "9p"];

/** A choice of a rank; `none` names the choice of no rank. */
export function RankSelect(props: { label: Key; value: string; none?: Key; onPick: (rank: string) => void }) {
  const { label, value, none, onPick } = props;
  return (
    <label>
      {t(label)}{" "}
      <select value={value} onChange={(event) => onPick(event.currentTarget.value)}>
        {none && <option value="">{t(none)}</option>}
        {[...new Set([...RANKS, ...(value ? [value] : [])])].map((each) => <option key={each} value={each}>{rankName(each)}</option>)}
      </select>
    </label>
  );
}

interface FieldProps {
  /** The parameter of the address. */
  name: (typeof FILTER)[number];
  label: string;
  type?: "text" | "search" | "number";
  placeholder?: string;
  /** Show the label only to screen readers. */
  bare?: boolean;
}

/** A text or number of the filter. It applies as soon as typing pauses, without a new entry in the history. */
export function FilterField({ name, label, type = "text", placeholder, bare }: FieldProps) {
  const given = useRoute().query.get(name) ?? "";
  const [draft, setDraft] = useState(given);
  const sent = useRef(given);
  const timer = useRef(0);
  useEffect(() => {
    if (given !== sent.current) setDraft(given);
    sent.current = given;
  }, [given]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const change = (value: string) => {
    setDraft(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      sent.current = value;
      setFilter({ [name]: value }, true);
    }, 250);
  };
  return (
    <label class="field">
      <span class={bare ? "hidden" : undefined}>{label}</span>
      <input
        type={type}
        value={draft}
        placeholder={placeholder}
        maxLength={200}
        min={type === "number" ? 0 : undefined}
        max={type === "number" ? 9999 : undefined}
        onInput={(event) => change(event.currentTarget.value)}
      />
    </label>
  );
}

interface ChoiceProps {
  name: (typeof FILTER)[number];
  label: string;
  /** Values and their labels, without the empty one. */
  choices: readonly (readonly [string, string])[];
}

function FilterChoice({ name, label, choices }: ChoiceProps) {
  const given = useRoute().query.get(name) ?? "";
  const other = given !== "" && !choices.some(([value]) => value === given);
  return (
    <label class="field">
      <span>{label}</span>
      <select value={given} onChange={(event) => setFilter({ [name]: event.currentTarget.value })}>
        <option value="">{t("any")}</option>
        {other && <option value={given}>{given}</option>}
        {choices.map(([value, text]) => <option key={value} value={value}>{text}</option>)}
      </select>
    </label>
  );
}

function FilterCondition() {
  const given = useRoute().query.get("sql") ?? "";
  const [draft, setDraft] = useState(given);
  useEffect(() => setDraft(given), [given]);
  return (
    <form
      class="field"
      onSubmit={(event) => {
        event.preventDefault();
        runCondition(draft);
      }}
    >
      <label class="field">
        <span>{t("sqlCondition")}</span>
        <textarea
          class="code"
          rows={3}
          maxLength={2000}
          spellcheck={false}
          placeholder="black_rating > white_rating + 3 AND komi = 0.5"
          value={draft}
          onInput={(event) => setDraft(event.currentTarget.value)}
        />
      </label>
      <div class="row">
        <button type="submit">{t("apply")}</button>
        {given && <button type="button" onClick={() => setFilter({ sql: undefined })}>{t("clear")}</button>}
      </div>
    </form>
  );
}

/** The form of the filter, on the address's parameters: all pages that choose games show it. */
export function FilterForm({ search = true }: { search?: boolean }) {
  const filter = useFilter();
  const used = FILTER.filter((name) => filter[name]).length;
  return (
    <div class="filter">
      {search && <FilterField name="q" type="search" label={t("searchGames")} />}
      <FilterField name="player" label={t("player")} />
      <FilterChoice name="colour" label={t("colour")} choices={[["black", t("black")], ["white", t("white")]]} />
      <FilterField name="year_from" type="number" label={t("yearFrom")} />
      <FilterField name="year_to" type="number" label={t("yearTo")} />
      <FilterChoice name="rating" label={t("lowestRank")} choices={RATINGS.map((rating) => [`${rating}`, ratingName(rating)])} />
      <FilterChoice
        name="winner"
        label={t("winner")}
        choices={[["black", t("black")], ["white", t("white")], ["draw", t("draw")], ["none", t("noWinner")]]}
      />
      <FilterChoice name="handicap" label={t("handicap")} choices={[["none", t("evenGames")], ["some", t("handicapGames")]]} />
      <FilterChoice
        name="board"
        label={t("boardSize")}
        choices={["19x19", "13x13", "9x9"].map((size) => [size, size.replace("x", " × ")] as const)}
      />
      <FilterField name="archive" label={t("archive")} />
      <Disclosure title={t("sqlTitle")} open={Boolean(filter["sql"])}>
        <FilterCondition />
      </Disclosure>
      {used > 0 && (
        <button type="button" onClick={() => setFilter(Object.fromEntries(FILTER.map((name) => [name, undefined])))}>
          {t("clearFilter", { count: used })}
        </button>
      )}
    </div>
  );
}

/** A button that asks once before it acts. */
export function AskButton({ label, ask = true, onYes }: { label: Key; ask?: boolean; onYes: () => void }) {
  const [asked, setAsked] = useState<boolean>();
  const button = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => { if (asked !== undefined) button.current?.focus(); }, [asked]);
  if (!asked) return <button type="button" ref={button} onClick={() => (ask ? setAsked(true) : onYes())}>{t(label)}</button>;
  return (
    <span class="row" role="group" aria-label={t(label)} onKeyDown={(event) => event.key === "Escape" && setAsked(false)}>
      <strong>{t("askSure", { action: t(label) })}</strong>
      <button type="button" ref={button} onClick={() => { setAsked(false); onYes(); }}>{t("yes")}</button>
      <button type="button" onClick={() => setAsked(false)}>{t("no")}</button>
    </span>
  );
}

/** A part that opens and closes. */
export function Disclosure(props: { title: ComponentChildren; open?: boolean; children: ComponentChildren }) {
  return (
    <details class="disclosure" open={props.open}>
      <summary>{props.title}</summary>
      {props.children}
    </details>
  );
}

/** Links to the previous and the next page of a list; the parameter `first` of the address. */
export function Pager({ first, count, total }: { first: number; count: number; total: number }) {
  if (total <= count && first === 0) return null;
  const last = Math.min(first + count, total);
  const go = (target: number) => setQuery({ first: target > 0 ? target : undefined });
  const end = Math.floor(Math.max(total - 1, 0) / count) * count;
  return (
    <nav class="row pager" aria-label={t("pages")}>
      <button type="button" disabled={first === 0} aria-label={t("firstPage")} onClick={() => go(0)}>«</button>
      <button type="button" disabled={first === 0} onClick={() => go(first - count)}>{t("previous")}</button>
      <span>{t("range", { first: number(Math.min(first + 1, last)), last: number(last), total: number(total) })}</span>
      <button type="button" disabled={last >= total} onClick={() => go(first + count)}>{t("next")}</button>
      <button type="button" disabled={last >= total} aria-label={t("lastPage")} onClick={() => go(end)}>»</button>
    </nav>
  );
}

/** The head of a column that sorts a table; the parameters `sort` and `descending` of the address. */
export function SortHead(props: { column: string; numeric?: boolean; children: ComponentChildren }) {
  const { query } = useRoute();
  const active = query.get("sort") === props.column;
  const descending = active && query.get("descending") === "true";
  const click = () => {
    // Numbers and dates are of most interest in descending order; a third click restores the first order.
    const start = props.numeric ?? false;
    if (!active) setFilter({ sort: props.column, descending: start || undefined });
    else if (descending === start) setFilter({ sort: props.column, descending: !start || undefined });
    else setFilter({ sort: undefined, descending: undefined }); // the order of the page
  };
  return (
    <th
      scope="col"
      class={props.numeric ? "number" : undefined}
      aria-sort={active ? (descending ? "descending" : "ascending") : undefined}
    >
      <button type="button" class="plain" onClick={click}>
        {props.children}
        <span aria-hidden="true">{active ? (descending ? " ▼" : " ▲") : ""}</span>
      </button>
    </th>
  );
}

export interface Bar {
  /** The name of the bar, such as a year. */
  label: string;
  value: number;
}

/** Return the bars of years with their games. Years without games get bars, too, unless dates are wrong by centuries. */
export function yearBars(years: [number, number][]): Bar[] {
  const counts = new Map(years);
  const start = Math.min(...counts.keys());
  const span = counts.size ? Math.max(...counts.keys()) - start + 1 : 0;
  const shown = span <= 150 ? Array.from({ length: span }, (_, k) => start + k) : [...counts.keys()].sort((a, b) => a - b);
  return shown.map((year) => ({ label: String(year), value: counts.get(year) ?? 0 }));
}

export interface BarChartProps {
  /** What the chart shows, for screen readers. */
  label: string;
  bars: Bar[];
  /** Labels of the chosen bars. */
  selected?: ReadonlySet<string>;
  onPick?: (label: string) => void;
}

/** Vertical bars. With `onPick`, arrow keys move between bars and Enter chooses one. */
export function BarChart({ label, bars, selected, onPick }: BarChartProps) {
  const [focus, setFocus] = useState(0);
  const svg = useRef<SVGSVGElement>(null);
  const highest = Math.max(1, ...bars.map((bar) => bar.value));
  const move = (event: KeyboardEvent, k: number) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key] ?? 0;
    if (event.key === "Enter" || event.key === " ") onPick?.(bars[k]!.label);
    else if (step === 0) return;
    else {
      const next = Math.min(Math.max(k + step, 0), bars.length - 1);
      setFocus(next);
      (svg.current?.children[next] as SVGElement | undefined)?.focus();
    }
    event.preventDefault();
  };
  const text = (bar: Bar) => `${bar.label}: ${number(bar.value)}`;
  const at = Math.min(focus, bars.length - 1);
  return (
    <figure class="chart">
      {bars.length > 0 && <span class="muted" aria-hidden="true">{t("highest", { value: number(highest) })}</span>}
      <svg
        ref={svg}
        viewBox={`0 0 ${Math.max(bars.length, 1) * 10} 60`}
        style={{ maxWidth: `${4 * bars.length}rem` }}
        preserveAspectRatio="none"
        role={onPick ? "group" : "img"}
        aria-label={onPick ? label : `${label}. ${bars.map(text).join("; ")}`}
      >
        {bars.map((bar, k) => {
          const height = bar.value > 0 ? Math.max(1, (58 * bar.value) / highest) : 0;
          const chosen = selected?.has(bar.label) ?? false;
          return (
            <g
              key={bar.label}
              class={chosen ? "bar chosen" : "bar"}
              role={onPick ? "button" : undefined}
              tabindex={onPick ? (k === at ? 0 : -1) : undefined}
              aria-label={onPick ? text(bar) : undefined}
              aria-pressed={onPick ? chosen : undefined}
              onClick={onPick && (() => onPick(bar.label))}
              onKeyDown={onPick && ((event: KeyboardEvent) => move(event, k))}
            >
              <title>{text(bar)}</title>
              <rect class="back" x={k * 10} y={0} width={10} height={60} />
              <rect x={k * 10 + 1} y={60 - height} width={8} height={height} />
            </g>
          );
        })}
      </svg>
      {bars.length > 0 && (
        <figcaption class="muted" aria-hidden="true" style={{ maxWidth: `${4 * bars.length}rem` }}>
          <span>{bars[0]!.label}</span>
          {bars.length > 1 && <span>{bars[bars.length - 1]!.label}</span>}
        </figcaption>
      )}
    </figure>
  );
}

export interface CountListProps {
  /** Value, label and number of games. */
  items: { value: string; label: string; count: number }[];
  selected?: string | null;
  onPick?: (value: string) => void;
}

/** Values with their counts as horizontal bars; with `onPick` each is a button. */
export function CountList({ items, selected, onPick }: CountListProps) {
  const highest = Math.max(1, ...items.map((item) => item.count));
  return (
    <ul class="counts">
      {items.map(({ value, label, count }) => {
        const parts = (
          <>
            <span class="fill" style={{ width: `${(100 * count) / highest}%` }} aria-hidden="true" />
            <span class="name">{value === selected && <span aria-hidden="true">✓ </span>}{label}</span>
            <span class="count">{number(count)}</span>
          </>
        );
        return (
          <li key={value}>
            {onPick ? (
              <button type="button" class="count-row" aria-pressed={value === selected} onClick={() => onPick(value)}>
                {parts}
              </button>
            ) : (
              <div class="count-row">{parts}</div>
            )}
          </li>
        );
      })}
    </ul>
  );
}

/** A small line of values, with a text alternative. */
export function Sparkline({ values, label, width = 80, height = 20 }: {
  values: number[];
  label: string;
  width?: number;
  height?: number;
}) {
  const highest = Math.max(...values, 0) || 1;
  const x = (k: number) => (values.length > 1 ? 1 + (k * (width - 2)) / (values.length - 1) : width / 2);
  const points = values.map((value, k) => `${x(k).toFixed(1)},${(height - 1 - (value / highest) * (height - 2)).toFixed(1)}`);
  return (
    <svg class="sparkline" width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>
      <title>{label}</title>
      {values.length > 1 ? (
        <polyline points={points.join(" ")} />
      ) : (
        points.map((point) => <circle key={point} cx={point.split(",")[0]} cy={point.split(",")[1]} r={2} />)
      )}
    </svg>
  );
}
