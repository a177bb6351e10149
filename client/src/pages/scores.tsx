// Tables of the scores of nets, for evaluations and benchmarks.
import type { ComponentChildren } from "preact";
import { number, percent, t, type Key } from "../i18n";
import { setQuery, useRoute } from "../router";

/** A value with the bounds of its 95 % interval. */
export type Interval = [number, number, number];

export interface Score {
  positions: number;
  games: number;
  top1: Interval;
  top3: Interval;
  top5: Interval;
  nll: Interval;
}

export type Measure = "top1" | "top3" | "top5" | "nll";
const MEASURES: Measure[] = ["top1", "top3", "top5", "nll"];

/** A net of a report. */
export interface ScoredNet {
  name: string;
  /** Scores by kind of group and group. */
  by: Record<string, Record<string, Score>>;
  /** Differences to the first net. */
  to_first: Partial<Record<Measure, Interval>> | null;
}

const isShare = (measure: string) => measure !== "nll";

function figure(value: number, share: boolean): string {
  return share ? percent(value) : number(value, 3);
}

type Value = Interval | number | null | undefined;

/** A number of a table, with its interval. */
export function Cell({ value, share }: { value: Value; share: boolean }) {
  if (value === null || value === undefined) return <td class="number">–</td>;
  if (typeof value === "number") return <td class="number">{figure(value, share)}</td>;
  const [mean, low, high] = value;
  return (
    <td class="number">
      {figure(mean, share)}
      <small class="muted interval"> [{figure(low, share)}, {figure(high, share)}]</small>
    </td>
  );
}

/** A table in a region that scrolls by itself on narrow screens. */
export function Region({ label, children }: { label: string; children: ComponentChildren }) {
  return <div class="scroll" tabIndex={0} role="region" aria-label={label}>{children}</div>;
}

interface NetTableProps<N> {
  label: string;
  nets: N[];
  /** A remark below the name of a net. */
  note?: (net: N) => string;
  value: (net: N, measure: Measure) => Value;
  /** Further columns. */
  more?: [title: Key, value: (net: N) => Value][];
}

/** A row for each net, a column for each measure. */
export function NetTable<N extends { name: string }>({ label, nets, note, value, more = [] }: NetTableProps<N>) {
  return (
    <Region label={label}>
      <table>
        <thead>
          <tr>
            <th scope="col">{t("net")}</th>
            {[...MEASURES, ...more.map(([title]) => title)].map((title) => (
              <th key={title} scope="col" class="number">{t(title)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {nets.map((net) => (
            <tr key={net.name}>
              <th scope="row">{net.name}{note && <div class="muted light">{note(net)}</div>}</th>
              {MEASURES.map((measure) => <Cell key={measure} value={value(net, measure)} share={isShare(measure)} />)}
              {more.map(([title, of]) => <Cell key={title} value={of(net)} share={false} />)}
            </tr>
          ))}
        </tbody>
      </table>
    </Region>
  );
}

/** What a reader of a report must know. */
export function Remarks({ remarks }: { remarks: string[] }) {
  return <>{remarks.map((remark) => <p key={remark} class="remark">⚠ {remark}</p>)}</>;
}

/** The differences of the other nets to the first one. */
export function Differences({ nets }: { nets: ScoredNet[] }) {
  const others = nets.filter((net) => net.to_first);
  if (others.length === 0) return null;
  const title = t("toFirst", { name: nets[0]!.name });
  return (
    <>
      <h3>{title}</h3>
      <NetTable label={title} nets={others} value={(net, measure) => net.to_first![measure]} />
    </>
  );
}

const BREAKDOWNS: Record<string, Key> = {
  move: "byMove", rank: "byRank", handicap: "byHandicap", region: "byRegion", line: "byLine", capture: "byCapture",
  window: "byWindow",
};

/** The scores of nets by groups of positions, for the measure that the address names. */
export function Breakdown({ nets }: { nets: ScoredNet[] }) {
  const given = useRoute().query.get("measure") as Measure | null;
  const measure = given && MEASURES.includes(given) ? given : "top1";
  const names = [...new Set(nets.flatMap((net) => Object.keys(net.by)))];
  if (names.length === 0) return null;
  return (
    <section>
      <div class="row spread">
        <h2>{t("breakdowns")}</h2>
        <label class="row">
          <span class="muted">{t("measure")}</span>
          <select value={measure} onChange={(event) => setQuery({ measure: event.currentTarget.value }, true)}>
            {MEASURES.map((each) => <option key={each} value={each}>{t(each)}</option>)}
          </select>
        </label>
      </div>
      <div class="tiles">
        {names.map((name) => <Groups key={name} name={name} nets={nets} measure={measure} />)}
      </div>
    </section>
  );
}

function Groups({ name, nets, measure }: { name: string; nets: ScoredNet[]; measure: Measure }) {
  const groups = [...new Set(nets.flatMap((net) => Object.keys(net.by[name] ?? {})))];
  const title = BREAKDOWNS[name] ? t(BREAKDOWNS[name]) : name;
  const all = nets.flatMap((net) => Object.values(net.by[name] ?? {}).map((score) => score[measure][2]));
  const highest = Math.max(...all, 0) || 1;
  return (
    <section class="panel">
      <h3>{title}</h3>
      <Region label={title}>
        <table class="groups">
          <thead>
            <tr>
              <th scope="col">{t("group")}</th>
              {nets.map((net) => <th key={net.name} scope="col">{net.name}</th>)}
              <th scope="col" class="number">{t("positions")}</th>
            </tr>
          </thead>
          <tbody>
            {groups.map((group) => (
              <tr key={group}>
                <th scope="row">{group}</th>
                {nets.map((net) => {
                  const interval = net.by[name]?.[group]?.[measure];
                  return interval ? (
                    <td key={net.name}>
                      <IntervalBar interval={interval} highest={highest} share={isShare(measure)} />
                    </td>
                  ) : <td key={net.name}>–</td>;
                })}
                <td class="number">
                  {number(Math.max(0, ...nets.map((net) => net.by[name]?.[group]?.positions ?? 0)))}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Region>
    </section>
  );
}

/** A value as text, and as a point within its interval on a scale from 0. */
function IntervalBar({ interval, highest, share }: { interval: Interval; highest: number; share: boolean }) {
  const [value, low, high] = interval;
  const x = (each: number) => Math.max(0, (100 * each) / highest);
  return (
    <span class="interval-bar" title={`${figure(low, share)} – ${figure(high, share)}`}>
      <span>{figure(value, share)}</span>
      <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
        <rect class="range" x={x(low)} y={3} width={Math.max(x(high) - x(low), 0.5)} height={4} />
        <rect x={x(value) - 0.75} y={0} width={1.5} height={10} />
      </svg>
    </span>
  );
}
