// Lines of moves: their place in addresses, the player to move, captures.
import type { GameInfo } from "./uploads";
import { BLACK, POINT_MASK, WHITE, WHITE_BIT, type Line, type ShownLine } from "./api";

const LETTERS = "abcdefghijklmnopqrstuvwxyz";

/** Return the fields of a line that the server takes, with some of its moves or with others. */
export function sent(line: Line, moves: number[] = line.moves): Line {
  const { width, height, setup, setup_ply, to_play } = line;
  return { width, height, setup, setup_ply, moves, to_play };
}

/** Return the player to move after `ply` moves. */
export function moverAt(line: Line, ply: number): number {
  const next = line.moves[ply];
  if (next !== undefined) return next & WHITE_BIT ? WHITE : BLACK;
  const last = line.moves[ply - 1];
  if (last !== undefined) return last & WHITE_BIT ? BLACK : WHITE;
  return line.to_play || BLACK;
}

/** Return points as pairs of SGF letters; a pass is zz. */
export function toLetters(points: number[], line: Line): string {
  const letters = (point: number) =>
    point >= line.width * line.height ? "zz" : LETTERS[point % line.width]! + LETTERS[Math.floor(point / line.width)]!;
  return points.map(letters).join("");
}

/** Return the points of pairs of SGF letters, up to the first pair that is neither a point nor a pass. */
export function fromLetters(text: string, line: Line): number[] {
  const points: number[] = [];
  for (let k = 0; k + 1 < text.length; k += 2) {
    const [x, y] = [LETTERS.indexOf(text[k]!), LETTERS.indexOf(text[k + 1]!)];
    if (x === 25 && y === 25) points.push(line.width * line.height);
    else if (x >= 0 && x < line.width && y >= 0 && y < line.height) points.push(y * line.width + x);
    else break;
  }
  return points;
}

/** Return moves that continue a line after `ply` moves, the players in turn. */
export function continued(line: Line, ply: number, points: number[]): number[] {
  const first = moverAt(line, ply);
  const words = points.map((point, k) => point | ((first === WHITE) === (k % 2 === 0) ? WHITE_BIT : 0));
  return [...line.moves.slice(0, ply), ...words];
}

/** Return the number of stones that Black and White have captured after `ply` moves. */
export function captures(line: ShownLine, ply: number): [number, number] {
  const stones = line.start.slice();
  const taken: [number, number] = [0, 0];
  for (const step of line.steps.slice(0, ply)) {
    for (const [point, colour] of Object.entries(step)) {
      const old = stones[Number(point)];
      if (colour === 0 && old === WHITE) taken[0] += 1;
      if (colour === 0 && old === BLACK) taken[1] += 1;
      stones[Number(point)] = colour;
    }
  }
  return taken;
}

/** Return the number of the last move on each point that has a stone, counted from the move after `from`. */
export function moveNumbers(line: Line, stones: number[], ply: number, from = 0): Map<number, number> {
  const numbers = new Map<number, number>();
  line.moves.slice(from, ply).forEach((word, k) => {
    if (stones[word & POINT_MASK]) numbers.set(word & POINT_MASK, k + 1);
  });
  return numbers;
}

/** Return the conditions of a game that nets take. */
export function conditions(info: GameInfo) {
  const year = Number(/^\d{4}/.exec(info.date)?.[0] ?? 0);
  const komi = info.komi !== null && Math.abs(info.komi) <= 1000 ? info.komi : null;
  const handicap = info.handicap !== null && info.handicap >= 0 && info.handicap <= 100 ? info.handicap : null;
  return { komi, handicap, rules: info.rules.slice(0, 40), year: year || null };
}
