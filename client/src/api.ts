// Requests to the server. Every answer is JSON; an error is {"error": line}.
import { useEffect, useState } from "preact/hooks";
import { errorText, t } from "./i18n";

export type Params = Record<string, string | number | boolean | null | undefined>;

/** Return an address with the parameters that have a value. */
export function address(path: string, params: Params = {}): string {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== "") query.set(key, String(value));
  }
  return query.size ? `${path}?${query}` : path;
}

/** Send a request. An error has a message in the reader's language. */
async function request(path: string, init: RequestInit): Promise<Response> {
  const response = await fetch(path, init).catch((error: Error) => {
    throw error.name === "AbortError" ? error : new Error(t("errorOffline"));
  });
  if (!response.ok) throw new Error(errorText((await response.json()).error));
  return response;
}

/** Get JSON. */
export async function get<T>(path: string, params: Params = {}, signal?: AbortSignal): Promise<T> {
  return (await request(address(path, params), { signal })).json();
}

/** Post JSON, or a file as it is. */
export function send(path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  const file = body instanceof Blob;
  const headers = { "content-type": file ? "application/octet-stream" : "application/json" };
  return request(path, { method: "POST", headers, body: file ? body : JSON.stringify(body), signal });
}

/** Post JSON and get JSON. */
export async function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  return (await send(path, body, signal)).json();
}

export interface Loaded<T> {
  /** The latest answer, which stays while the next one is awaited. */
  value: T | undefined;
  error: string | undefined;
  loading: boolean;
}

/** Load a value whenever `key` changes; an undefined key loads nothing. Outdated requests are cancelled. */
export function useLoaded<T>(key: string | undefined, load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [state, setState] = useState<Loaded<T>>({ value: undefined, error: undefined, loading: key !== undefined });
  useEffect(() => {
    if (key === undefined) {
      setState({ value: undefined, error: undefined, loading: false });
      return undefined;
    }
    const control = new AbortController();
    setState((old) => ({ ...old, loading: true }));
    load(control.signal).then(
      (value) => setState({ value, error: undefined, loading: false }),
      (error: Error) => {
        if (!control.signal.aborted) setState({ value: undefined, error: error.message, loading: false });
      },
    );
    return () => control.abort();
  }, [key]);
  return state;
}

/** Get JSON whenever the address changes. */
export function useGet<T>(path: string | undefined, params: Params = {}): Loaded<T> {
  const key = path === undefined ? undefined : address(path, params);
  return useLoaded<T>(key, (signal) => get<T>(key!, {}, signal));
}

/** Post JSON whenever the body changes; an undefined body posts nothing. */
export function usePost<T>(path: string, body: unknown): Loaded<T> {
  const key = body === undefined ? undefined : JSON.stringify(body);
  return useLoaded<T>(key, (signal) => post<T>(path, body, signal));
}

export interface Net {
  name: string;
  description: string;
  board: [number, number];
  passes: boolean;
  has_value: boolean;
  /** Whether its lead and ownership hold. */
  has_points: boolean;
  takes_ranks: boolean;
  /** Boards for play, with their largest handicaps. */
  boards: { size: number; handicap: number }[];
}

export interface Site {
  corpora: { name: string; games: number; indexed: boolean }[];
  /** Null while the server opens them. */
  nets: Net[] | null;
}

/** Setup stones and moves, see kifu.web.positions. Words are point | 0x8000 for White; a pass is width * height. */
export interface Line {
  width: number;
  height: number;
  setup: number[];
  setup_ply: number[];
  moves: number[];
  to_play: number;
}

/** A line with the stones before its first move and the changes that each move makes. */
export interface ShownLine extends Line {
  start: number[];
  steps: Record<string, number>[];
  illegal: string | null;
}

export const WHITE_BIT = 0x8000;
export const POINT_MASK = 0x3fff;
export const BLACK = 1;
export const WHITE = 2;

/** Return the stones of a line after `ply` moves: 0 empty, 1 black, 2 white, row by row. */
export function stonesAfter(line: ShownLine, ply: number): number[] {
  const stones = line.start.slice();
  for (const step of line.steps.slice(0, ply)) {
    for (const [point, colour] of Object.entries(step)) stones[Number(point)] = colour;
  }
  return stones;
}
