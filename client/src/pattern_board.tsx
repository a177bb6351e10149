// The region of a pattern: its cells, edges, moves and continuations, to look at and to paint.
import { useRef, useState } from "preact/hooks";
import type { Heat } from "./board";
import { t } from "./i18n";

/** Allowed contents of a cell: a sum of these. */
export const EMPTY_CELL = 1;
export const BLACK_CELL = 2;
export const WHITE_CELL = 4;
export const ANY_CELL = 7;

/** The characters of cells in text notation. */
export const CHARACTERS: Record<number, string> = { 1: ".", 2: "X", 4: "O", 3: "x", 5: "o", 6: "#", 7: "*" };

/** A pattern, as kifu.web.patterns describes it. */
export interface Shape {
  text: string;
  width: number;
  height: number;
  cells: number[];
  anchor: string;
  edges: [left: boolean, upper: boolean, right: boolean, lower: boolean];
  both_colours: boolean;
  moves: [x: number, y: number, colour: number][];
  consecutive: boolean;
  next_colour: number;
  actual_colour: boolean;
  last_ply: number | null;
}

/** Return the edges of the board that a pattern at an anchor touches. */
export function edgesOf(anchor: string): Shape["edges"] {
  const whole = anchor === "board";
  return [whole || anchor === "corner", whole || anchor === "corner" || anchor === "side", whole, whole];
}

/** Return the name of what a cell contains. */
export function cellName(cell: number): string {
  const names = { 1: "emptyPoint", 2: "black", 4: "white", 3: "blackOrEmpty", 5: "whiteOrEmpty", 6: "anyStone" } as const;
  return t(names[cell as keyof typeof names] ?? "anything");
}

export interface PatternBoardProps {
  shape: Shape;
  heat?: Map<number, Heat>;
  /** Called for each point that is painted, in the order of a stroke. */
  onPaint: (point: number, erase: boolean) => void;
  /** Called at the end of a stroke. */
  onEnd: () => void;
}

/** Return the number and colour of the first move on each point. */
function firstMoves({ moves, width }: Pick<Shape, "moves" | "width">): Map<number, [string, number]> {
  const numbered = moves.map(([x, y, colour], k): [number, [string, number]] => [y * width + x, [String(k + 1), colour]]);
  return new Map(numbered.reverse());
}

interface CellsProps {
  shape: Pick<Shape, "width" | "height" | "cells" | "edges" | "moves">;
  heat?: Map<number, Heat> | undefined;
  cursor?: number | undefined;
}

/** The cells of a pattern, as part of an SVG. */
export function Cells({ shape, heat, cursor }: CellsProps) {
  const { width, height, cells, edges } = shape;
  const [left, upper, right, lower] = edges;
  const numbers = firstMoves(shape);
  return (
    <>
      <rect class="wood" width={width} height={height} />
      {cells.map((cell, point) => {
        const [x, y] = [point % width, Math.floor(point / width)];
        const [x0, x1] = [left && x === 0 ? 0.5 : 0, right && x === width - 1 ? 0.5 : 1];
        const [y0, y1] = [upper && y === 0 ? 0.5 : 0, lower && y === height - 1 ? 0.5 : 1];
        const number = numbers.get(point);
        const stone = number?.[1] ?? (cell === BLACK_CELL ? 1 : cell === WHITE_CELL ? 2 : 0);
        const label = number?.[0] ?? heat?.get(point)?.text;
        const other = number || stone || cell === EMPTY_CELL ? undefined : CHARACTERS[cell];
        return (
          <g key={point} transform={`translate(${x} ${y})`}>
            <path class="grid" d={`M${x0} .5H${x1}M.5 ${y0}V${y1}`} />
            {other && <rect class="wild" x=".08" y=".08" width=".84" height=".84" rx=".15" />}
            {other && !label && <text x=".5" y=".7">{other}</text>}
            {stone > 0 && <circle class={`stone_${stone}`} cx=".5" cy=".5" r=".46" />}
            {label && !stone && <circle class="label" cx=".5" cy=".5" r=".4" />}
            {label && <text class={`on_${stone}`} x=".5" y=".68">{label}</text>}
            {cursor === point && <rect class="cursor" x=".04" y=".04" width=".92" height=".92" />}
          </g>
        );
      })}
    </>
  );
}

/** Show the region of a pattern. Dragging paints; so do keys at the cursor. */
export function PatternBoard({ shape, heat, onPaint, onEnd }: PatternBoardProps) {
  const { width, height, cells } = shape;
  const svg = useRef<SVGSVGElement>(null);
  const latest = useRef<number | undefined>(undefined);
  const [cursor, setCursor] = useState<number | undefined>(undefined);
  const at = Math.min(cursor ?? 0, width * height - 1);

  const paint = (event: PointerEvent) => {
    const box = svg.current!.getBoundingClientRect();
    const x = Math.floor(((event.clientX - box.left) / box.width) * width);
    const y = Math.floor(((event.clientY - box.top) / box.height) * height);
    if (x < 0 || y < 0 || x >= width || y >= height || latest.current === y * width + x) return;
    latest.current = y * width + x;
    onPaint(latest.current, false);
  };
  const keyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (step) {
      const clip = (value: number, size: number) => Math.min(Math.max(value, 0), size - 1);
      setCursor(clip(Math.floor(at / width) + step[1]!, height) * width + clip((at % width) + step[0]!, width));
    } else if (["Enter", " ", "Delete"].includes(event.key)) {
      onPaint(at, event.key === "Delete");
      onEnd();
    } else return;
    event.preventDefault();
  };
  const numbers = firstMoves(shape);
  const said = (point: number) => {
    const [x, y] = [point % width, Math.floor(point / width)];
    return [`${x + 1}-${y + 1}`, cellName(cells[point]!), numbers.get(point)?.[0], heat?.get(point)?.label].filter(Boolean).join(", ");
  };
  return (
    <div
      class="pattern-board"
      role="application"
      aria-label={t("patternBoard")}
      tabIndex={0}
      onKeyDown={keyDown}
      onFocus={() => setCursor(at)}
      onBlur={() => setCursor(undefined)}
    >
      <svg
        ref={svg}
        class="cells"
        viewBox={`0 0 ${width} ${height}`}
        aria-hidden="true"
        style={{ maxWidth: `min(${3.5 * width}rem, ${(70 * width) / height}vh)` }}
        onPointerDown={(event) => {
          if (event.button !== 0) return;
          svg.current!.setPointerCapture(event.pointerId);
          latest.current = undefined;
          paint(event);
        }}
        onPointerMove={(event) => svg.current!.hasPointerCapture(event.pointerId) && paint(event)}
        onPointerUp={onEnd}
      >
        <Cells shape={shape} heat={heat} cursor={cursor} />
      </svg>
      <span class="hidden" aria-live="polite">{cursor === undefined ? "" : said(at)}</span>
    </div>
  );
}
