// Records that the user opened: the server parses them, the browser's session keeps them.
import { POINT_MASK, post, type Line } from "./api";
import { t } from "./i18n";

/** What a record states about its game, see `kifu.web.games.game_info`; "" or null where it states nothing. */
export interface GameInfo {
  black: string;
  white: string;
  black_rank: string;
  white_rank: string;
  date: string;
  event: string;
  round: string;
  place: string;
  title: string;
  result: string;
  rules: string;
  time: string;
  overtime: string;
  /** Of Black and White, as nets take them. */
  ranks: [string | null, string | null];
  komi: number | null;
  handicap: number | null;
  width: number;
  height: number;
  moves: number;
  warnings: string[];
}

/** A node of a record's tree, see `kifu.web.games.upload_game`. */
export interface TreeNode {
  parent: number;
  move: number | null;
  setup: number[];
  comment: string;
  marks: [number, "triangle" | "square" | "circle" | "cross" | "label", string][];
}

/** A game of a file, see `kifu.web.games.upload_game`. */
export interface UploadedGame {
  /** Name of the file. */
  file: string;
  name: string;
  info: GameInfo | null;
  line: Line | null;
  nodes: TreeNode[];
  notes: [string, ...(string | number)[]][];
}

/** The games of some files, and what could not be read of them. */
export interface Upload {
  games: UploadedGame[];
  errors: string[];
  more: boolean;
}

const MAX_UPLOAD = 1 << 20;
const opened = new Map<string, Upload>();

/** Send files to the server and keep the games in the session. Return the address of the game, or of their list. */
export async function openFiles(files: { name: string; content: Blob | string }[]): Promise<string> {
  const found: Upload = { games: [], errors: [], more: false };
  for (const { name, content } of files) {
    const label = files.length > 1 && name ? `${name}: ` : "";
    const file = new Blob([content]);
    try {
      if (file.size > MAX_UPLOAD) throw new Error(t("tooLarge"));
      const answer = await post<Upload>(`/api/upload?name=${encodeURIComponent(name.slice(-100))}`, file);
      found.games.push(...answer.games.map((game) => ({ ...game, file: name })));
      found.more ||= answer.more;
    } catch (error) {
      found.errors.push(label + (error as Error).message);
    }
  }
  if (!found.games.length) throw new Error(found.errors.join(" · "));
  const key = crypto.getRandomValues(new Uint32Array(2)).reduce((text, part) => text + part.toString(36), "");
  opened.set(key, found);
  try {
    sessionStorage.setItem(key, JSON.stringify(found));
  } catch {
    // Larger than the browser keeps: the games stay until the page is loaded again.
  }
  const single = found.games.length === 1 && !found.errors.length && !found.more;
  return `/game/upload/${key}${single ? "/0" : ""}`;
}

/** Return the games with a key; undefined if this session has none. */
export function storedUpload(key: string): Upload | undefined {
  const text = opened.has(key) ? null : sessionStorage.getItem(key);
  if (text !== null) opened.set(key, JSON.parse(text) as Upload);
  return opened.get(key);
}

/** A line of a tree: indices of its nodes, and the number of moves up to each. */
export interface TreePath {
  nodes: number[];
  plies: number[];
}

/** Return the line through a node of a tree, which goes on with first children. */
export function pathThrough(tree: TreeNode[], node: number): TreePath {
  const nodes: number[] = [];
  for (let k = node; k >= 0; k = tree[k]!.parent) nodes.unshift(k);
  const next = new Map<number, number>();
  tree.forEach(({ parent }, k) => next.has(parent) || next.set(parent, k));
  for (let k = next.get(node); k !== undefined; k = next.get(k)) nodes.push(k);
  let ply = 0;
  return { nodes, plies: nodes.map((k) => (tree[k]!.move === null ? ply : ++ply)) };
}

/** Return the moves and setup stones of a line of a tree. */
export function lineOfPath(tree: TreeNode[], { nodes, plies }: TreePath, line: Line): Line {
  const moves = nodes.flatMap((k) => tree[k]!.move ?? []);
  const setup = nodes.flatMap((k) => tree[k]!.setup);
  return { ...line, moves, setup, setup_ply: nodes.flatMap((k, i) => tree[k]!.setup.map(() => plies[i]!)) };
}

/** Return the first nodes of the variations that begin after `ply` moves of a line. */
export function variationsAt(tree: TreeNode[], path: TreePath, ply: number): number[] {
  const here = path.nodes.filter((_, k) => path.plies[k] === ply);
  return tree.flatMap(({ parent }, k) => (here.includes(parent) && !path.nodes.includes(k) ? [k] : []));
}

/** Return the point of the first move at or after a node along first children; undefined if there is none. */
export function firstMove(tree: TreeNode[], node: number): number | undefined {
  const { nodes } = pathThrough(tree, node);
  const found = nodes.slice(nodes.indexOf(node)).find((k) => tree[k]!.move !== null);
  return found === undefined ? undefined : tree[found]!.move! & POINT_MASK;
}
