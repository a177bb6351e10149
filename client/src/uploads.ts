// Records that the user opened: the server parses them, the browser's session keeps them.
import type { ShownLine } from "./api";

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
  komi: number | null;
  handicap: number | null;
  width: number;
  height: number;
  moves: number;
  warnings: string[];
}

/** The answer of POST /api/sgf. */
export interface Upload {
  line: ShownLine;
  info: GameInfo;
  /** Number of games in the file, of which the first readable one is shown. */
  games: number;
}

/** Send a record to the server and keep its answer in the session. Return the address of its game page. */
export async function openRecord(record: Blob | string): Promise<string> {
  const headers = { "content-type": "application/octet-stream" };
  const response = await fetch("/api/sgf", { method: "POST", headers, body: record });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  const key = crypto.getRandomValues(new Uint32Array(2)).reduce((text, part) => text + part.toString(36), "");
  sessionStorage.setItem(key, JSON.stringify(answer));
  return `/game/upload/${key}`;
}

/** Return the record with a key; undefined if this session has none. */
export function storedRecord(key: string): Upload | undefined {
  const text = sessionStorage.getItem(key);
  return text === null ? undefined : (JSON.parse(text) as Upload);
}
