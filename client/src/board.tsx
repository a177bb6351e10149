// The board of all pages: Shudan, fitted to its place and the height of the window, with a cursor for the keyboard.
import { Goban, type Marker, type Vertex } from "@sabaki/shudan";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { percent, t } from "./i18n";

export interface Heat {
  /** 1 to 9. */
  strength: number;
  text?: string;
  /** What a screen reader reads at the point. */
  label?: string;
}

export interface BoardProps {
  width: number;
  height: number;
  /** Row by row: 0 empty, 1 black, 2 white. */
  stones: number[];
  /** The point of the last move. */
  last?: number;
  markers?: Map<number, Marker>;
  heat?: Map<number, Heat>;
  /** Points shown as belonging to a colour: 1 black, 2 white. */
  area?: number[];
  /** Expected owner of each point, from -1 for White to 1 for Black. */
  ownership?: number[];
  /** Stones shown pale. */
  dimmed?: number[];
  selected?: number[];
  onPoint?: (point: number) => void;
  /** Called with -1 or 1 when the mouse wheel turns over the board. */
  onWheel?: (step: number) => void;
  /** Largest width in pixels. */
  maxWidth?: number;
  coordinates?: boolean;
  label?: string;
}

const COLUMNS = "ABCDEFGHJKLMNOPQRSTUVWXYZ";

/** Share of the window's height that a board may take. */
const HEIGHT_SHARE = 0.74;

/** Scrolled pixels for one step of the wheel. */
const WHEEL_STEP = 50;

/** Return a point as in GTP, such as Q16. */
export function pointName(point: number, width: number, height: number): string {
  if (point >= width * height) return t("pass");
  return `${COLUMNS[point % width]}${height - Math.floor(point / width)}`;
}

/** Probabilities from which the strengths 1 to 9 of a heat map begin. */
export const HEAT_STEPS = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7] as const;

/** Return the heat map of probabilities of points; those below the first step are not shown. */
export function heatOf(policy: [point: number, probability: number][]): Map<number, Heat> {
  const heat = new Map<number, Heat>();
  for (const [point, probability] of policy) {
    const strength = HEAT_STEPS.filter((step) => probability >= step).length;
    const rounded = Math.round(100 * probability);
    if (strength) heat.set(point, { strength, text: rounded < 1 ? "<1" : String(rounded), label: percent(probability) });
  }
  return heat;
}

/** Explain the discs of a heat map. */
export function HeatLegend() {
  return (
    <p class="heat-legend">
      <span class="muted">{t("heatLegend")}</span>
      {[1, 3, 5, 7, 9].map((strength) => (
        <span key={strength}>
          <span class={`heat-disc heat-disc_${strength}`} aria-hidden="true" /> ≥{percent(HEAT_STEPS[strength - 1]!, strength < 2 ? 1 : 0)}
        </span>
      ))}
    </p>
  );
}

function rows<T>(width: number, height: number, value: (point: number) => T): T[][] {
  return Array.from({ length: height }, (_, y) => Array.from({ length: width }, (_, x) => value(y * width + x)));
}

/** Call `onWheel` for each step of the wheel over an element, which then does not scroll the page. */
function useWheel(place: { current: HTMLElement | null }, onWheel: ((step: number) => void) | undefined): void {
  const latest = useRef(onWheel);
  latest.current = onWheel;
  useEffect(() => {
    if (!onWheel) return undefined;
    let sum = 0;
    const turn = (event: WheelEvent) => {
      if (event.ctrlKey) return;
      event.preventDefault();
      sum += event.deltaMode === WheelEvent.DOM_DELTA_PIXEL ? event.deltaY : event.deltaY * WHEEL_STEP;
      if (Math.abs(sum) < WHEEL_STEP) return;
      latest.current?.(Math.sign(sum));
      sum = 0;
    };
    const element = place.current!;
    element.addEventListener("wheel", turn, { passive: false });
    return () => element.removeEventListener("wheel", turn);
  }, [onWheel === undefined]);
}

/** Return the size in pixels of a point of a board that fits into an element and the window. */
function useVertexSize(place: { current: HTMLElement | null }, cells: [number, number], maxWidth: number): number {
  const [size, setSize] = useState([0, 0]);
  // Before the first paint, so that the page does not jump.
  useLayoutEffect(() => {
    const measure = () => setSize([place.current!.clientWidth, innerHeight * HEIGHT_SHARE]);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(place.current!);
    addEventListener("resize", measure);
    return () => {
      observer.disconnect();
      removeEventListener("resize", measure);
    };
  }, []);
  const [wide, high] = [Math.min(size[0]!, maxWidth) / cells[0], size[1]! / cells[1]];
  return size[0] ? Math.max(4, Math.floor(4 * Math.min(wide, high)) / 4) : 0;
}

/** Show a position. Clicks and, at the cursor that arrow keys move, Enter call `onPoint`. */
export function Board(props: BoardProps) {
  const { width, height, stones, last, markers, heat, area, ownership, coordinates = true, maxWidth = 760 } = props;
  const place = useRef<HTMLDivElement>(null);
  const middle = Math.floor(height / 2) * width + Math.floor(width / 2);
  const [cursor, setCursor] = useState<number | undefined>(undefined);
  const around = coordinates ? 2.3 : 0.8;
  const vertexSize = useVertexSize(place, [width + around, height + around], maxWidth);
  useWheel(place, props.onWheel);

  const vertex = (point: number): Vertex => [point % width, Math.floor(point / width)];
  const signMap = useMemo(
    () => rows(width, height, (point) => [0, 1, -1][stones[point] ?? 0] as 0 | 1 | -1),
    [width, height, stones],
  );
  const markerMap = useMemo(
    () => rows(width, height, (point) => markers?.get(point) ?? (point === last ? { type: "circle" as const } : null)),
    [width, height, markers, last],
  );
  const heatMap = useMemo(
    () => heat && rows(width, height, (point) => heat.get(point) ?? null),
    [width, height, heat],
  );
  const paintMap = useMemo(
    () => (ownership ? rows(width, height, (point) => (Math.abs(ownership[point] ?? 0) < 0.15 ? 0 : ownership[point]!) as 0 | 1 | -1)
      : area && rows(width, height, (point) => [0, 1, -1][area[point] ?? 0] as 0 | 1 | -1)),
    [width, height, area, ownership],
  );

  const keyDown = (event: KeyboardEvent) => {
    if (!props.onPoint || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = cursor ?? middle;
    const [x, y] = vertex(at);
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.key === "Enter" || event.key === " ") props.onPoint(at);
    else if (step) {
      const clip = (value: number, size: number) => Math.min(Math.max(value, 0), size - 1);
      setCursor(clip(y + step[1]!, height) * width + clip(x + step[0]!, width));
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const said = (point: number) => {
    const content = [t("emptyPoint"), t("black"), t("white")][stones[point] ?? 0]!;
    const details = [heat?.get(point)?.label, point === last ? t("lastMove") : undefined];
    return [pointName(point, width, height), content, ...details.filter(Boolean)].join(", ");
  };
  const marked = [...(props.selected ?? []), ...(cursor === undefined ? [] : [cursor])];

  return (
    <div
      class={heat ? "board board_heat" : "board"}
      ref={place}
      tabIndex={props.onPoint ? 0 : undefined}
      role={props.onPoint ? "application" : "img"}
      aria-label={props.label ?? `${width} × ${height}`}
      onKeyDown={keyDown}
      // A click leaves the focus where it is, so that arrow keys keep on changing the position on show.
      onMouseDown={(event) => event.preventDefault()}
      onFocus={() => props.onPoint && setCursor((old) => old ?? middle)}
      onBlur={() => setCursor(undefined)}
    >
      {vertexSize > 0 && (
        <Goban
          vertexSize={vertexSize}
          signMap={signMap}
          markerMap={markerMap}
          heatMap={heatMap}
          paintMap={paintMap}
          showCoordinates={coordinates}
          selectedVertices={marked.map(vertex)}
          dimmedVertices={(props.dimmed ?? []).map(vertex)}
          onVertexClick={(_: unknown, [x, y]: Vertex) => props.onPoint?.(y * width + x)}
        />
      )}
      <span class="hidden" aria-live="polite">
        {cursor === undefined ? "" : said(cursor)}
      </span>
    </div>
  );
}

export interface ThumbnailProps {
  width: number;
  height: number;
  /** Row by row: 0 empty, 1 black, 2 white. */
  stones: number[];
  /** The point of the last move. */
  last?: number;
  /** Short texts, such as A or 7, on points. */
  marks?: Map<number, string>;
  /** The position in words; without it, screen readers skip the picture. */
  label?: string;
}

/** Return the lines of an empty board as the `d` of an SVG path; points have odd half coordinates. */
export function gridPath(width: number, height: number): string {
  const columns = Array.from({ length: width }, (_, x) => `M${x + 0.5} .5v${height - 1}`);
  const lines = Array.from({ length: height }, (_, y) => `M.5 ${y + 0.5}h${width - 1}`);
  return columns.join("") + lines.join("");
}

/** Show a position as a small picture, without handlers: cheap enough for hundreds of them. */
export function Thumbnail({ width, height, stones, last, marks, label }: ThumbnailProps) {
  const centre = (point: number) => ({ cx: (point % width) + 0.5, cy: Math.floor(point / width) + 0.5 });
  const placed = (colour: number) => stones.flatMap((stone, point) => (stone === colour ? [point] : []));
  const named = label === undefined ? { "aria-hidden": true as const } : { role: "img" as const, "aria-label": label };
  return (
    <svg class="thumbnail" viewBox={`-.2 -.2 ${width + 0.4} ${height + 0.4}`} {...named}>
      <path class="thumbnail-grid" d={gridPath(width, height)} />
      {[1, 2].map((colour) => (
        <g key={colour} class={`thumbnail-stone_${colour}`}>
          {placed(colour).map((point) => <circle key={point} {...centre(point)} r=".47" />)}
        </g>
      ))}
      {last !== undefined && last < width * height && (
        <circle class={`thumbnail-last_${stones[last] ?? 0}`} {...centre(last)} r=".22" />
      )}
      {[...(marks ?? [])].map(([point, text]) => {
        const { cx, cy } = centre(point);
        return (
          <g key={point} class={`thumbnail-mark_${stones[point] ?? 0}`}>
            {!stones[point] && <circle cx={cx} cy={cy} r=".45" />}
            <text x={cx} y={cy} dy=".3" font-size={text.length > 2 ? 0.55 : 0.8}>{text}</text>
          </g>
        );
      })}
    </svg>
  );
}
