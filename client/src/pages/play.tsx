import { useEffect, useMemo, useState } from "preact/hooks";
import { BLACK, POINT_MASK, WHITE, WHITE_BIT, get, post, stonesAfter, useGet, type ShownLine } from "../api";
import { Board } from "../board";
import { number, t } from "../i18n";
import { captures, moverAt, sent } from "../lines";
import { useNets } from "../site";
import { RANKS } from "./game";

interface Settings {
  net: number;
  colour: number;
  size: number;
  handicap: number;
  komi: number;
  temperature: number;
  rank: string;
}

interface Score {
  area: number[];
  black: number;
  white: number;
  result: string;
}

interface Match {
  settings: Settings;
  line: ShownLine;
  /** Who resigned; 0 for none. */
  resigned: number;
}

const KEY = "play";
const RULES = "chinese";
const START: Settings = { net: 0, colour: BLACK, size: 19, handicap: 0, komi: 7.5, temperature: 0.3, rank: "" };

function stored(): Match | undefined {
  const text = sessionStorage.getItem(KEY);
  return text === null ? undefined : (JSON.parse(text) as Match);
}

/** Play against a net. The browser's session keeps the game. */
export function PlayPage() {
  const [match, setMatch] = useState(stored);
  const change = (next: Match | undefined) => {
    if (next) sessionStorage.setItem(KEY, JSON.stringify(next));
    else sessionStorage.removeItem(KEY);
    setMatch(next);
  };
  const { nets, opening } = useNets();
  return (
    <>
      <h1>{t("play")}</h1>
      {!nets.length ? <p>{t(opening ? "netsOpening" : "noNets")}</p>
        : match && match.settings.net in nets ? <MatchView match={match} onChange={change} />
        : <SettingsForm onStart={change} />}
    </>
  );
}

function SettingsForm({ onStart }: { onStart: (match: Match) => void }) {
  const { nets } = useNets();
  const [chosen, setSettings] = useState(START);
  const boards = useGet<{ size: number; handicap: number }[]>("/api/boards", { net: chosen.net });
  const board = boards.value?.find(({ size }) => size === chosen.size) ?? boards.value?.at(-1);
  const settings = board ? { ...chosen, size: board.size, handicap: Math.min(chosen.handicap, board.handicap) } : chosen;
  const [error, setError] = useState("");
  const set = (changes: Partial<Settings>) => setSettings({ ...chosen, ...changes });
  const start = async (event: Event) => {
    event.preventDefault();
    try {
      const { net, size, handicap } = settings;
      onStart({ settings, line: await get<ShownLine>("/api/start", { net, size, handicap }), resigned: 0 });
    } catch (failed) {
      setError((failed as Error).message);
    }
  };
  const numeric = (name: "komi" | "temperature", label: string, min: number, max: number, step: number) => (
    <label>
      {label}
      <input
        type="number"
        required
        min={min}
        max={max}
        step={step}
        value={settings[name]}
        onInput={(event) => set({ [name]: event.currentTarget.valueAsNumber })}
      />
    </label>
  );
  return (
    <form class="panel settings-form" onSubmit={start}>
      <label>
        {t("playNet")}
        <select value={settings.net} onChange={(event) => set({ net: Number(event.currentTarget.value), rank: "" })}>
          {nets.map((net, k) => <option key={k} value={k}>{net.name}</option>)}
        </select>
      </label>
      {nets[settings.net]!.takes_ranks && (
        <label>
          {t("playRank")}
          <select value={settings.rank} onChange={(event) => set({ rank: event.currentTarget.value })}>
            <option value="">{t("rankUnknown")}</option>
            {RANKS.map((each) => <option key={each} value={each}>{each}</option>)}
          </select>
        </label>
      )}
      <label>
        {t("playColour")}
        <select value={settings.colour} onChange={(event) => set({ colour: Number(event.currentTarget.value) })}>
          <option value={BLACK}>{t("black")}</option>
          <option value={WHITE}>{t("white")}</option>
        </select>
      </label>
      <label>
        {t("playSize")}
        <select value={settings.size} onChange={(event) => set({ size: Number(event.currentTarget.value) })}>
          {boards.value?.map(({ size }) => <option key={size} value={size}>{`${size} × ${size}`}</option>)}
        </select>
      </label>
      <label>
        {t("playHandicap")}
        <select value={settings.handicap} onChange={(event) => set({ handicap: Number(event.currentTarget.value) })}>
          {Array.from({ length: (board?.handicap ?? 0) + 1 }, (_, stones) => stones).filter((stones) => stones !== 1)
            .map((stones) => <option key={stones} value={stones}>{stones}</option>)}
        </select>
      </label>
      {numeric("komi", t("playKomi"), -100, 100, 0.5)}
      {numeric("temperature", t("playTemperature"), 0, 10, 0.1)}
      {(error || boards.error) && <p class="error" role="alert">{error || boards.error}</p>}
      <button type="submit">{t("startGame")}</button>
    </form>
  );
}

function MatchView({ match, onChange }: { match: Match; onChange: (match: Match | undefined) => void }) {
  const { settings, line, resigned } = match;
  const { colour, komi, handicap } = settings;
  const net = useNets().nets[settings.net]!;
  const [error, setError] = useState("");
  const [score, setScore] = useState<Score | undefined>(undefined);
  const ply = line.moves.length;
  const pass = line.width * line.height;
  const points = line.moves.map((word) => word & POINT_MASK);
  const finished = points[ply - 1] === pass && points[ply - 2] === pass;
  const over = finished || resigned > 0;
  const mover = moverAt(line, ply);
  const stones = useMemo(() => stonesAfter(line, ply), [line]);
  const [takenByBlack, takenByWhite] = useMemo(() => captures(line, ply), [line]);

  const playWord = async (word: number) => {
    const next = await post<ShownLine>("/api/line", { line: sent(line, [...line.moves, word]), rules: RULES });
    if (next.illegal) throw new Error(next.illegal);
    setError("");
    onChange({ ...match, line: next });
  };
  const fail = (failed: Error) => setError(failed.message);
  const play = (point: number) => {
    if (!over && mover === colour && !stones[point]) playWord(point | (colour === WHITE ? WHITE_BIT : 0)).catch(fail);
  };
  const back = async (moves: number[]) => {
    const shorter = await post<ShownLine>("/api/line", { line: sent(line, moves), rules: RULES });
    setError("");
    onChange({ ...match, resigned: 0, line: shorter });
  };
  const undo = () => back(line.moves.slice(0, mover === colour ? -2 : -1)).catch(fail);

  useEffect(() => {
    if (over || mover === colour) return undefined;
    let current = true;
    const body = { line: sent(line), net: settings.net, temperature: settings.temperature, rank: settings.rank, komi, handicap, rules: RULES };
    post<{ move: number | null }>("/api/play", body).then(
      ({ move }) => {
        if (!current) return;
        if (move === null) onChange({ ...match, resigned: mover });
        else playWord(move | (mover === WHITE ? WHITE_BIT : 0)).catch(fail);
      },
      (failed: Error) => current && fail(failed),
    );
    return () => {
      current = false;
    };
  }, [line, resigned]);
  useEffect(() => {
    setScore(undefined);
    if (!finished) return;
    post<Score>("/api/score", { line: sent(line), komi, rules: RULES }).then(setScore, fail);
  }, [line]);

  const result = resigned ? (resigned === BLACK ? "W+R" : "B+R") : (score?.result ?? "");
  const save = async () => {
    const names = colour === BLACK ? { black: t("you"), white: net.name } : { black: net.name, white: t("you") };
    const body = JSON.stringify({ line: sent(line), komi, handicap, ...names, result: over ? result : "", rules: RULES });
    const response = await fetch("/api/record", { method: "POST", headers: { "content-type": "application/json" }, body });
    if (!response.ok) throw new Error((await response.json()).error);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await response.blob());
    link.download = "game.sgf";
    link.click();
    URL.revokeObjectURL(link.href);
  };
  const name = (each: number) => t(each === WHITE ? "white" : "black");
  const status = over ? t("gameOver", { result }) : mover === colour ? t("yourTurn") : t("thinking", { name: net.name });
  const last = points[ply - 1];
  return (
    <div class="columns">
      <section aria-label={t("playBoard", { ply })}>
        <Board
          width={line.width}
          height={line.height}
          stones={stones}
          label={t("playBoard", { ply })}
          onPoint={play}
          {...(last === undefined ? {} : { last })}
          {...(score && finished ? { area: score.area } : {})}
        />
      </section>
      <section class="panel" aria-live="polite">
        <p><strong>{status}</strong></p>
        {last === pass && !over && <p>{t("passed", { colour: name(3 - mover) })}</p>}
        {finished && score && <p>{t("areaScore", { black: number(score.black), white: number(score.white, 1) })}</p>}
        {error && <p class="error" role="alert">{error}</p>}
        <p>{t("captured", { black: takenByBlack, white: takenByWhite })}</p>
        <p class="muted">{net.name} · {t("playKomi")} {komi} · {t("playHandicap")} {handicap}</p>
        <div class="row">
          <button type="button" disabled={over || mover !== colour} onClick={() => play(pass)}>{t("pass")}</button>
          <button type="button" disabled={ply < 1 || (mover === colour && ply < 2)} onClick={undo}>{t("undoMove")}</button>
          <button type="button" disabled={over} onClick={() => onChange({ ...match, resigned: colour })}>{t("resignGame")}</button>
          <button type="button" disabled={!ply} onClick={() => save().catch(fail)}>{t("saveGame")}</button>
          <button type="button" onClick={() => onChange(undefined)}>{t("newGame")}</button>
        </div>
      </section>
    </div>
  );
}
