import { useEffect, useMemo } from "preact/hooks";
import { POINT_MASK, WHITE, WHITE_BIT, address, stonesAfter, useGet, usePost, type Line, type ShownLine } from "../api";
import { Board, HeatLegend, heatOf, pointName } from "../board";
import { number, percent, t } from "../i18n";
import { captures, continued, fromLetters, moveNumbers, moverAt, sent, toLetters } from "../lines";
import { setQuery, useRoute } from "../router";
import { useNets } from "../site";
import { storedRecord, type GameInfo } from "../uploads";

export interface Prediction {
  policy: [number, number][];
  pass: number | null;
  value: number | null;
  to_play: number;
}

interface Analysis {
  log_prob: (number | null)[];
  rank: (number | null)[];
  value: (number | null)[];
  best: number[];
  best_probability: number[];
}

interface Shown {
  line: ShownLine;
  info: GameInfo;
}

export const RANKS = [...Array.from({ length: 18 }, (_, k) => `${18 - k}k`), ...Array.from({ length: 9 }, (_, k) => `${k + 1}d`), "9p"];
const MOVES_IN_TABLE = 6;
const LEAST_EXPECTED = 5;

/** Show a game of a catalogue, or one that the user opened. */
export function GamePage() {
  const [, first = "", second = ""] = useRoute().parts;
  const upload = first === "upload";
  const stored = useMemo(() => (upload ? storedRecord(second) : undefined), [second]);
  const { value, error } = useGet<Shown>(upload ? undefined : `/api/games/${encodeURIComponent(first)}/${encodeURIComponent(second)}`);
  const shown = upload ? stored : value;
  if (upload && !stored) return <><h1>{t("games")}</h1><p class="error" role="alert">{t("uploadMissing")}</p></>;
  if (error) return <><h1>{t("games")}</h1><p class="error" role="alert">{error}</p></>;
  if (!shown) return <p class="muted">{t("loading")}</p>;
  return <GameView {...shown} {...(upload ? {} : { row: [first, second] as [string, string] })} />;
}

/** Return the conditions of a game that nets take. */
function conditions(info: GameInfo) {
  const year = Number(/^\d{4}/.exec(info.date)?.[0] ?? 0);
  const komi = info.komi !== null && Math.abs(info.komi) <= 1000 ? info.komi : null;
  const handicap = info.handicap !== null && info.handicap >= 0 && info.handicap <= 100 ? info.handicap : null;
  return { komi, handicap, rules: info.rules.slice(0, 40), year: year || null };
}

function GameView({ line, info, row }: Shown & { row?: [string, string] }) {
  const { query } = useRoute();
  const { nets, opening } = useNets();
  const last = line.steps.length;
  const base = Math.min(Math.max(Math.round(Number(query.get("ply") ?? 0)) || 0, 0), last);
  const variation = fromLetters(query.get("line") ?? "", line);
  const letters = toLetters(variation, line);
  const tried = usePost<ShownLine>("/api/line", variation.length ? { line: sent(line, continued(line, base, variation)) } : undefined);
  // Until the server has answered, the position before the variation's last moves stays.
  const current = variation.length && tried.value ? tried.value : line;
  const ply = variation.length && tried.value ? current.steps.length : base;
  const stones = useMemo(() => stonesAfter(current, ply), [current, ply]);
  const [takenByBlack, takenByWhite] = useMemo(() => captures(current, ply), [current, ply]);
  const mover = moverAt(variation.length ? { ...current, moves: current.moves.slice(0, ply) } : line, ply);
  const showNumbers = query.get("numbers") === "1";
  const showHeat = query.get("heat") !== "0" && nets.length > 0;
  const chosen = (query.get("nets") ?? "0").split(",").map(Number).filter((k) => k in nets);
  const main = chosen[0];
  const rank = query.get("rank") ?? "";

  const asked = (net: number) => {
    const ranks = nets[net]!.takes_ranks ? { rank, opponent: rank } : {};
    return { line: sent(current, current.moves.slice(0, Math.max(ply, variation.length ? ply : ply + 1))), ply, net, ...ranks, ...conditions(info) };
  };
  const prediction = usePost<Prediction>("/api/predict", main === undefined || !showHeat ? undefined : asked(main));
  const heat = useMemo(() => (prediction.value && showHeat ? heatOf(prediction.value.policy) : undefined), [prediction.value, showHeat]);
  const analysed = main === undefined ? undefined : { ...asked(main), line: sent(line), ply: undefined };
  const analysis = usePost<Analysis>("/api/analyse", analysed);

  const go = (target: number, replace = true) =>
    setQuery({ ply: Math.min(Math.max(target, 0), last) || undefined, line: undefined }, replace);
  const step = (by: number) => {
    if (!variation.length) go(base + by);
    else if (by < 0) setQuery({ line: toLetters(variation.slice(0, Math.max(variation.length + by, 0)), line) }, true);
  };
  const play = (point: number) => {
    if (stones[point]) return;
    const next = line.moves[base];
    if (!variation.length && next !== undefined && (next & POINT_MASK) === point) go(base + 1);
    else setQuery({ ply: base || undefined, line: letters + toLetters([point], line) });
  };
  useEffect(() => {
    const keys = (event: KeyboardEvent) => {
      const inField = (event.target as Element).matches?.("input, select, textarea");
      if (inField || event.ctrlKey || event.metaKey || event.altKey) return;
      const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -10, ArrowDown: 10, PageUp: -10, PageDown: 10, Home: -1e6, End: 1e6 }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      step(by);
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  });

  const numbers = showNumbers ? moveNumbers(current, stones, ply, variation.length ? base : 0) : undefined;
  const markers = useMemo(
    () => numbers && new Map([...numbers].map(([point, k]) => [point, { type: "label" as const, label: String(k) }])),
    [showNumbers, current, ply],
  );
  const lastWord = current.moves[ply - 1];
  const place = row ? { corpus: row[0], row: row[1] } : undefined;
  return (
    <div class="columns game">
      <section aria-label={t("positionLabel")}>
        <h1 class="anywhere">
          <Player colour="black" name={info.black} rank={info.black_rank} /> –{" "}
          <Player colour="white" name={info.white} rank={info.white_rank} />
        </h1>
        <Board
          width={line.width}
          height={line.height}
          stones={stones}
          label={t("boardOf", { ply })}
          onPoint={play}
          onWheel={step}
          {...(lastWord === undefined ? {} : { last: lastWord & POINT_MASK })}
          {...(markers ? { markers } : {})}
          {...(heat ? { heat } : {})}
        />
        <input
          class="wide"
          type="range"
          min={0}
          max={last}
          value={base}
          aria-label={t("moveOf", { ply: base, moves: last })}
          onInput={(event) => go(Number(event.currentTarget.value))}
        />
        <div class="row">
          <StepButton sign="«" label={t("firstMove")} disabled={!base && !variation.length} onClick={() => go(0)} />
          <StepButton sign="‹" label={t("previousMove")} disabled={!base && !variation.length} onClick={() => step(-1)} />
          <StepButton sign="›" label={t("followingMove")} disabled={base === last || variation.length > 0} onClick={() => step(1)} />
          <StepButton sign="»" label={t("lastPosition")} disabled={base === last} onClick={() => go(last)} />
          <button type="button" onClick={() => play(line.width * line.height)}>{t("pass")}</button>
          <strong>{t("moveOf", { ply, moves: variation.length ? ply : last })}</strong>
        </div>
        {variation.length > 0 && (
          <nav class="row" aria-label={t("variation", { ply: base })}>
            <span>{t("variation", { ply: base })}</span>
            {variation.map((point, k) => (
              <button
                type="button"
                key={k}
                aria-current={k + 1 === variation.length ? "step" : undefined}
                onClick={() => setQuery({ line: toLetters(variation.slice(0, k + 1), line) })}
              >
                {pointName(point, line.width, line.height)}
              </button>
            ))}
            <button type="button" onClick={() => go(base, false)}>{t("backToGame")}</button>
          </nav>
        )}
        {(tried.error ?? tried.value?.illegal) && variation.length > 0 && (
          <p class="error" role="alert">{tried.error ?? tried.value?.illegal}</p>
        )}
        <div class="row spread">
          <p>
            {t("toMove", { colour: t(mover === WHITE ? "white" : "black") })}
            <span class="muted"> · {t("captured", { black: takenByBlack, white: takenByWhite })}</span>
          </p>
          <span class="row">
            <Toggle name="heat" on={showHeat} standard label={t("heatMap")} />
            <Toggle name="numbers" on={showNumbers} label={t("moveNumbers")} />
          </span>
        </div>
        {showHeat && <HeatLegend />}
        <p class="row">
          {place && !variation.length && (
            <a class="button" href={address("/explore", { corpus: place.corpus, game: place.row, ply: base })}>{t("openExplorer")}</a>
          )}
          {place && <a class="button" href={address("/planes", { ...place, ply: base, line: letters })}>{t("openPlanes")}</a>}
          {place && <a class="button" href={`/api/games/${place.corpus}/${place.row}/sgf`} download>{t("downloadSgf")}</a>}
        </p>
      </section>
      <div>
        <section class="panel" aria-labelledby="nets">
          <h2 id="nets">{t("topMoves")}</h2>
          {!nets.length && <p>{t(opening ? "netsOpening" : "noNets")}</p>}
          <div class="row">
            {nets.map((net, k) => (
              <label key={k}>
                <input
                  type="checkbox"
                  checked={chosen.includes(k)}
                  onChange={(event) => {
                    const others = chosen.filter((each) => each !== k);
                    setQuery({ nets: (event.currentTarget.checked ? [...others, k] : others).join(",") || "none" }, true);
                  }}
                />{" "}
                {net.name}
              </label>
            ))}
            {chosen.some((k) => nets[k]!.takes_ranks) && (
              <label>
                {t("rankLabel")}{" "}
                <select value={rank} onChange={(event) => setQuery({ rank: event.currentTarget.value }, true)}>
                  <option value="">{t("rankUnknown")}</option>
                  {RANKS.map((each) => <option key={each} value={each}>{each}</option>)}
                </select>
              </label>
            )}
          </div>
          <div class="side-by-side">
            {chosen.map((k) => <TopMoves key={k} name={nets[k]!.name} body={asked(k)} line={line} onPick={play} />)}
          </div>
        </section>
        {analysis.error && <p class="error" role="alert">{analysis.error}</p>}
        {main !== undefined && analysis.loading && !analysis.value && <section class="panel waiting">{t("loading")}</section>}
        {analysis.value && (
          <>
            <AnalysisChart analysis={analysis.value} line={line} ply={base} onPick={(target) => go(target, false)} />
            <LeastExpected analysis={analysis.value} line={line} />
          </>
        )}
        <Information info={info} />
      </div>
    </div>
  );
}

function Player({ colour, name, rank }: { colour: "black" | "white"; name: string; rank: string }) {
  return (
    <>
      <span class={`stone stone_${colour}`} role="img" aria-label={t(colour)} />
      {name || "?"} <small>{rank}</small>
    </>
  );
}

/** A button with a sign instead of its label. */
function StepButton(props: { sign: string; label: string; disabled: boolean; onClick: () => void }) {
  const { sign, label, ...others } = props;
  return <button type="button" class="step" aria-label={label} title={label} {...others}>{sign}</button>;
}

function Toggle({ name, on, label, standard = false }: { name: string; on: boolean; label: string; standard?: boolean }) {
  const change = () => setQuery({ [name]: on === standard ? (on ? "0" : "1") : undefined }, true);
  return <label><input type="checkbox" checked={on} onChange={change} /> {label}</label>;
}

/** Return Black's winning probability of a value of the player to move. */
function blackWins(value: number, mover: number): number {
  return (1 + (mover === WHITE ? -value : value)) / 2;
}

function TopMoves(props: { name: string; body: unknown; line: Line; onPick: (point: number) => void }) {
  const { value, error } = usePost<Prediction>("/api/predict", props.body);
  const { width, height } = props.line;
  return (
    <div>
      {error && <p class="error" role="alert">{error}</p>}
      <table>
        <caption>{props.name}</caption>
        <thead><tr><th>{t("moveLabel")}</th><th class="number">{t("probability")}</th></tr></thead>
        <tbody>
          {value?.policy.slice(0, MOVES_IN_TABLE).map(([point, share]) => (
            <tr key={point} class="probability" style={{ "--share": `${100 * share}%` }}>
              <td><button type="button" class="plain" onClick={() => props.onPick(point)}>{pointName(point, width, height)}</button></td>
              <td class="number">{percent(share)}</td>
            </tr>
          )) ?? Array.from({ length: MOVES_IN_TABLE }, (_, k) => <tr key={k}><td>&nbsp;</td><td /></tr>)}
        </tbody>
      </table>
      <p class="muted">
        {[
          typeof value?.value === "number" && t("winBlack", { share: percent(blackWins(value.value, value.to_play)) }),
          typeof value?.pass === "number" && t("passShare", { share: percent(value.pass) }),
        ].filter(Boolean).join(" · ")}
        &nbsp;
      </p>
    </div>
  );
}

const CHART_HEIGHT = 100;
/** Log-probability of the longest bar. */
const LOWEST = -10;

function AnalysisChart(props: { analysis: Analysis; line: Line; ply: number; onPick: (ply: number) => void }) {
  const { analysis, line, ply } = props;
  const count = analysis.log_prob.length;
  if (!count) return null;
  const width = 600 / count;
  const share = (k: number) => {
    const value = analysis.value[k];
    return value === null || value === undefined ? undefined : blackWins(value, line.moves[k]! & WHITE_BIT ? WHITE : 1);
  };
  const at = Math.min(ply, count - 1);
  const [log, win] = [analysis.log_prob[at], share(at)];
  const text = t("chartText", {
    ply: at + 1,
    log: typeof log === "number" ? number(log, 1) : "–",
    share: win === undefined ? "–" : percent(win, 0),
  });
  const points = analysis.log_prob.flatMap((_, k) => {
    const value = share(k);
    return value === undefined ? [] : [`${(k + 0.5) * width},${(1 - value) * CHART_HEIGHT}`];
  });
  return (
    <section class="panel" aria-labelledby="by-move">
      <h2 id="by-move">{t("chartByMove")}</h2>
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
        {analysis.log_prob.map((value, k) => {
          const size = value === null ? 0 : Math.min(value / LOWEST, 1) * CHART_HEIGHT;
          return <rect key={k} class="analysis-bar" x={k * width} y={CHART_HEIGHT - size} width={width * 0.8} height={size} />;
        })}
        <line class="analysis-even" x1="0" x2="600" y1={CHART_HEIGHT / 2} y2={CHART_HEIGHT / 2} />
        <polyline class="analysis-value" points={points.join(" ")} />
        <line class="analysis-here" x1={(at + 0.5) * width} x2={(at + 0.5) * width} y1="0" y2={CHART_HEIGHT} />
      </svg>
      <p>{text}</p>
      <p class="muted">
        <span class="swatch analysis-bar" /> {t("chartBars")}
        {points.length > 0 && <><br /><span class="swatch swatch_line" /> {t("chartLine")}</>}
      </p>
    </section>
  );
}

function LeastExpected({ analysis, line }: { analysis: Analysis; line: Line }) {
  const { query } = useRoute();
  const kept = Object.fromEntries(query);
  const scored = analysis.log_prob.flatMap((log, ply) => (log === null ? [] : [{ ply, log, word: line.moves[ply]! }]));
  return (
    <section class="panel" aria-labelledby="least">
      <h2 id="least">{t("leastExpected")}</h2>
      <div class="side-by-side">
        {([0, WHITE_BIT] as const).map((bit) => (
          <div key={bit}>
            <h3>{t(bit ? "white" : "black")}</h3>
            <ol>
              {scored.filter(({ word }) => (word & WHITE_BIT) === bit).sort((a, b) => a.log - b.log).slice(0, LEAST_EXPECTED)
                .map(({ ply, log, word }) => (
                  <li key={ply}>
                    <a href={address(location.pathname, { ...kept, line: undefined, ply })}>
                      {t("numbered", {
                        number: ply + 1,
                        point: pointName(word & POINT_MASK, line.width, line.height),
                        share: percent(Math.exp(log), 2),
                      })}
                    </a>
                  </li>
                ))}
            </ol>
          </div>
        ))}
      </div>
    </section>
  );
}

function Information({ info }: { info: GameInfo }) {
  const rows: [string, string | number | null][] = [
    [t("dateLabel"), info.date], [t("eventLabel"), [info.event, info.round].filter(Boolean).join(", ")],
    [t("placeLabel"), info.place], [t("resultLabel"), info.result], [t("komiLabel"), info.komi],
    [t("handicapLabel"), info.handicap], [t("rulesLabel"), info.rules],
  ];
  return (
    <section class="panel" aria-labelledby="information">
      <h2 id="information">{t("information")}</h2>
      <dl class="facts">
        {rows.filter(([, value]) => value !== null && value !== "").map(([label, value]) => (
          <div key={label}><dt>{label}</dt><dd>{value}</dd></div>
        ))}
      </dl>
    </section>
  );
}
