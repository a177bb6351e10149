import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { POINT_MASK, WHITE, address, stonesAfter, useGet, usePost, type ShownLine } from "../api";
import { Board, gridPath } from "../board";
import { number, t } from "../i18n";
import { continued, fromLetters, moverAt, sent } from "../lines";
import { setQuery, useRoute } from "../router";
import { useCorpus } from "../site";
import type { GameInfo } from "../uploads";

interface Plane {
  name: string;
  values: number[][];
}

interface Feature {
  name: string;
  definition: string;
  /** Number of planes. */
  planes: number;
}

interface Planes {
  name: string;
  title: string;
  first_row: "top" | "bottom";
  padding: number;
  features: Feature[];
  planes: Plane[];
  inputs: { name: string; value: number }[];
}

/** Show every plane of a plane set for a position. */
export function PlanesPage() {
  const { query } = useRoute();
  const corpus = useCorpus();
  const row = query.get("row") ?? "0";
  const shown = useGet<{ line: ShownLine; info: GameInfo }>(`/api/games/${corpus}/${encodeURIComponent(row)}`);
  const sets = useGet<{ name: string; title: string; planes: number }[]>("/api/plane-sets");
  const chosen = query.get("planes") ?? "alphago48@1";
  const game = shown.value?.line;
  const base = Math.min(Math.max(Math.round(Number(query.get("ply") ?? 0)) || 0, 0), game?.steps.length ?? 0);
  const variation = game ? fromLetters(query.get("line") ?? "", game) : [];
  const tried = usePost<ShownLine>(
    "/api/line",
    game && variation.length ? { line: sent(game, continued(game, base, variation)) } : undefined,
  );
  const line = variation.length ? tried.value : game;
  const ply = variation.length ? (line?.steps.length ?? 0) : base;
  const stones = useMemo(() => (line ? stonesAfter(line, ply) : []), [line, ply]);
  const info = shown.value?.info;
  const body = line && info && {
    line: sent(line, line.moves.slice(0, ply + 1)),
    ply,
    planes: chosen.slice(0, 40),
    black_rank: info.black_rank.slice(0, 40),
    white_rank: info.white_rank.slice(0, 40),
    rules: info.rules.slice(0, 40),
    komi: info.komi,
  };
  const encoded = usePost<Planes>("/api/planes", body);
  const error = shown.error ?? sets.error ?? tried.error ?? encoded.error;
  const go = (target: number) => setQuery({ ply: target || undefined, line: undefined }, true);
  const last = line?.moves[ply - 1];
  const features = encoded.value?.features.map((each) => each.name).join(" + ");
  return (
    <>
      <h1>{t("planes")}</h1>
      <div class="row">
        <label>
          {t("planeSet")}{" "}
          <select value={chosen} onChange={(event) => setQuery({ planes: event.currentTarget.value })}>
            {sets.value?.map((each) => <option key={each.name} value={each.name}>{each.name} ({each.planes})</option>)}
          </select>
        </label>
        <button type="button" disabled={!base} onClick={() => go(base - 1)}>{t("previousMove")}</button>
        <span>{t("planesMove", { ply })}</span>
        <button type="button" disabled={!game || base >= game.steps.length} onClick={() => go(base + 1)}>{t("followingMove")}</button>
        <a href={address(`/game/${corpus}/${row}`, { ply: base, line: query.get("line") })}>{t("planesGame")}</a>
      </div>
      {error && <p class="error" role="alert">{error}</p>}
      {line && (
        <div class="planes-position">
          <Board
            width={line.width}
            height={line.height}
            stones={stones}
            label={t("planesPosition")}
            maxWidth={420}
            {...(last === undefined ? {} : { last: last & POINT_MASK })}
          />
          <div>
            <p>{t("planesIntro", { colour: t(moverAt(line, ply) === WHITE ? "white" : "black") })}</p>
            {encoded.value && <p>{encoded.value.title}</p>}
            {features && <p class="anywhere">{t("planesComposition")} <code>{features}</code></p>}
            <p class="muted">{t("planesLegend")}</p>
          </div>
        </div>
      )}
      {encoded.loading && !encoded.value && <p class="muted">{t("loading")}</p>}
      {encoded.value && (
        <PlaneList set={encoded.value} />
      )}
      {encoded.value && encoded.value.inputs.length > 0 && (
        <section>
          <h2>{t("planesNumbers")}</h2>
          <table>
            <tbody>
              {encoded.value.inputs.map(({ name, value }) => (
                <tr key={name}><td>{name}</td><td class="number">{number(value, 3)}</td></tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </>
  );
}

interface Run {
  single: boolean;
  /** The features to define above the planes. */
  features: Feature[];
  planes: ComponentChildren[];
}

/** Show all planes in runs: those of a feature with several planes, or of neighbouring features with one plane each. */
function PlaneList({ set }: { set: Planes }) {
  const runs: Run[] = [];
  let k = 0;
  for (const feature of set.features.length ? set.features : [{ name: "", definition: "", planes: set.planes.length }]) {
    const single = feature.planes === 1;
    if (!single || !runs.at(-1)?.single) runs.push({ single, features: [], planes: [] });
    const { features, planes } = runs.at(-1)!;
    if (feature.name && feature.definition !== set.planes[k]!.name) features.push(feature);
    for (const end = k + feature.planes; k < end; k++) {
      planes.push(<PlaneView key={k} number={k} set={set} feature={single ? feature.name : ""} />);
    }
  }
  return (
    <>
      {runs.map(({ features, planes }, r) => (
        <section key={r}>
          {features.map(({ name, definition }) => <p key={name}><code>{name}</code> {definition}</p>)}
          <ol class="planes">{planes}</ol>
        </section>
      ))}
    </>
  );
}

interface PlaneProps {
  number: number;
  set: Planes;
  /** The name of the feature that consists of this plane, or "". */
  feature: string;
}

/** Show a plane as a picture that grows under the pointer or the focus. */
function PlaneView({ number: k, set, feature }: PlaneProps) {
  const plane = set.planes[k]!;
  const rows = set.first_row === "bottom" ? [...plane.values].reverse() : plane.values;
  const [width, height] = [rows[0]!.length, rows.length];
  const counts = new Map<number, number>();
  for (const value of rows.flat()) counts.set(value, (counts.get(value) ?? 0) + 1);
  const listed = [...counts].filter(([value]) => value !== 0).sort((a, b) => b[0] - a[0]).slice(0, 4);
  const values = listed.map(([value, count]) => `${number(value, Number.isInteger(value) ? 0 : 2)} × ${count}`).join(", ") || "0";
  const inner = set.padding;
  return (
    <li>
      <figure tabIndex={0}>
        <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`${plane.name}: ${values}`}>
          <g transform={`translate(${inner} ${inner})`}>
            <path class="plane-grid" d={gridPath(width - 2 * inner, height - 2 * inner)} />
          </g>
          {rows.flatMap((row, y) =>
            row.map((value, x) =>
              value === 0 ? null : (
                <rect
                  key={y * width + x}
                  class={value < 0 ? "plane-negative" : "plane-value"}
                  x={x + 0.06}
                  y={y + 0.06}
                  width="0.88"
                  height="0.88"
                  fill-opacity={Math.min(Math.abs(value), 1) * 0.85 + 0.15}
                />
              ),
            ),
          )}
        </svg>
        <figcaption>
          <strong>{k}</strong> {plane.name}
          {feature && <code>{feature}</code>}
          <span class="muted">{t("planesValues", { values })}</span>
        </figcaption>
      </figure>
    </li>
  );
}
