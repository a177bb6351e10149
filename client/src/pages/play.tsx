import { useEffect, useMemo, useState } from "preact/hooks";
import { address, BLACK, POINT_MASK, stonesAfter, useGet, usePost, WHITE, WHITE_BIT, post, send, type ShownLine } from "../api";
import { Board, heatOf, pointName } from "../board";
import { errorText, number, rankName, resultName, t, type Key } from "../i18n";
import { captures, continued, fromLetters, moverAt, sent, toLetters } from "../lines";
import { navigate, setQuery, useRoute } from "../router";
import { useNets } from "../site";
import { AskButton, RANKS } from "../ui";
import type { Prediction } from "../review";
import { openFiles } from "../uploads";

interface Settings {
  net: number;
  colour: number;
  size: number;
  handicap: number;
  komi: number;
  temperature: number;
  rank: string;
  rules: string;
}

interface Score {
  area: number[];
  dead: number[];
  /** Whether the net found the dead stones. */
  judged: boolean;
  black: number;
  white: number;
  result: string;
}

/** Where a tab keeps the address of its last game. */
const LAST = "play";
const RULES = { chinese: "rulesChinese", japanese: "rulesJapanese", korean: "rulesKorean", aga: "rulesAga" } as const;
const START: Settings = { net: 0, colour: BLACK, size: 19, handicap: 0, komi: 7.5, temperature: 0.3, rank: "", rules: "chinese" };

/** Return the settings of the game in the address; undefined without a game. */
function settingsOf(query: URLSearchParams): Settings | undefined {
  if (!query.has("size")) return undefined;
  const known = Object.entries(START).map(([key, value]) => {
    const given = query.get(key);
    return [key, given === null ? value : typeof value === "number" ? Number(given) || 0 : given];
  });
  const settings = Object.fromEntries(known) as Settings;
  return { ...settings, rules: settings.rules in RULES ? settings.rules : START.rules, rank: RANKS.includes(settings.rank) ? settings.rank : "" };
}

/** Play against a net. The address holds the game. */
export function PlayPage() {
  const { query } = useRoute();
  const { nets, opening } = useNets();
  const settings = settingsOf(query);
  return (
    <>
      <h1>{t("play")}</h1>
      {!nets.length ? <p>{t(opening ? "netsOpening" : "noNets")}</p>
        : settings && settings.net in nets ? <MatchPage settings={settings} />
        : <SettingsForm />}
    </>
  );
}

function SettingsForm() {
  const { nets } = useNets();
  const corpus = useRoute().query.get("corpus");
  const [chosen, setSettings] = useState(START);
  const { boards, takes_ranks } = nets[chosen.net]!;
  const board = boards.find(({ size }) => size === chosen.size) ?? boards.at(-1);
  const settings = board ? { ...chosen, size: board.size, handicap: Math.min(chosen.handicap, board.handicap) } : chosen;
  const set = (changes: Partial<Settings>) => setSettings((old) => ({ ...old, ...changes }));
  const last = sessionStorage.getItem(LAST);
  const start = (event: Event) => {
    event.preventDefault();
    navigate(address("/play", { corpus, ...settings }));
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
  const choice = (name: keyof Settings, label: Key, choices: [string | number, string][], change?: (value: string) => void) => (
    <label>
      {t(label)}
      <select
        value={settings[name]}
        onChange={({ currentTarget: { value } }) => (change ? change(value) : set({ [name]: typeof START[name] === "number" ? Number(value) : value }))}
      >
        {choices.map(([value, text]) => <option key={value} value={value}>{text}</option>)}
      </select>
    </label>
  );
  const stones = Array.from({ length: (board?.handicap ?? 0) + 1 }, (_, count) => count).filter((count) => count !== 1);
  return (
    <>
      {last && <p><a href={last}>{t("continueGame")}</a></p>}
      <form class="panel settings-form" onSubmit={start}>
        {choice("net", "playNet", nets.map((net, k) => [k, net.name]), (value) => set({ net: Number(value), rank: "" }))}
        {takes_ranks &&
          choice("rank", "playRank", [["", t("rankUnknown")], ...RANKS.map((each): [string, string] => [each, rankName(each)])])}
        {choice("colour", "playColour", [[BLACK, t("black")], [WHITE, t("white")]])}
        {choice("size", "playSize", boards.map(({ size }) => [size, `${size} × ${size}`]))}
        {choice("handicap", "playHandicap", stones.map((count) => [count, String(count)]), (value) =>
          set({ handicap: Number(value), komi: Number(value) ? 0.5 : START.komi }))}
        {choice("rules", "rulesLabel", Object.entries(RULES).map(([name, key]) => [name, t(key)]))}
        {numeric("komi", t("playKomi"), -100, 100, 0.5)}
        {numeric("temperature", t("playTemperature"), 0, 10, 0.1)}
        {!board && <p class="error" role="alert">{t("noSquareBoard")}</p>}
        <button type="submit" disabled={!board}>{t("startGame")}</button>
      </form>
    </>
  );
}

/** Load the position of the address, which the server checks. */
function MatchPage({ settings }: { settings: Settings }) {
  const { query } = useRoute();
  const { net, size, handicap, rules } = settings;
  const start = useGet<ShownLine>("/api/start", { net, size, handicap });
  const base = start.value;
  const points = base ? fromLetters(query.get("moves") ?? "", base) : [];
  const played = usePost<ShownLine>("/api/line", base && { line: sent(base, continued(base, 0, points)), rules });
  useEffect(() => sessionStorage.setItem(LAST, location.pathname + location.search), [query]);
  const error = start.error ?? played.error ?? (played.value?.illegal ? errorText(played.value.illegal) : undefined);
  if (played.value) return <MatchView settings={settings} line={played.value} {...(error ? { refused: error } : {})} />;
  return error ? (
    <><p class="error" role="alert">{error}</p><p><a href="/play">{t("newGame")}</a></p></>
  ) : <p class="muted">{t("loading")}</p>;
}

/** Return the stones of the chain at a point. */
function chainAt(point: number, stones: number[], width: number): number[] {
  const chain = [point];
  for (const at of chain) {
    const near = [at - width, at + width, ...(at % width ? [at - 1] : []), ...((at + 1) % width ? [at + 1] : [])];
    chain.push(...near.filter((each) => stones[each] === stones[point] && !chain.includes(each)));
  }
  return chain;
}

function MatchView({ settings, line, refused }: { settings: Settings; line: ShownLine; refused?: string }) {
  const { query } = useRoute();
  const { colour, komi, handicap, rules, rank, net: number_ } = settings;
  const net = useNets().nets[number_]!;
  const [error, setError] = useState("");
  const [hinted, setHinted] = useState(-1);
  const ply = line.steps.length;
  const pass = line.width * line.height;
  const points = line.moves.map((word) => word & POINT_MASK);
  const resigned = Number(query.get("resigned")) || 0;
  const finished = !resigned && points[ply - 1] === pass && points[ply - 2] === pass;
  const over = finished || resigned > 0;
  const mover = moverAt(line, ply);
  const stones = useMemo(() => stonesAfter(line, ply), [line]);
  const [takenByBlack, takenByWhite] = useMemo(() => captures(line, ply), [line]);
  const mine = !over && mover === colour;

  const show = (moves: number[], changes = {}) =>
    setQuery({ moves: toLetters(moves, line), resigned: undefined, dead: undefined, ...changes }, true);
  const fail = (failed: Error) => setError(failed.message);
  // The server is asked first, so that the address never holds an illegal move.
  const playPoint = async (point: number) => {
    const words = [...line.moves, point | (mover === WHITE ? WHITE_BIT : 0)];
    const next = await post<ShownLine>("/api/line", { line: sent(line, words), rules });
    if (next.illegal) throw new Error(errorText(next.illegal));
    setError("");
    show([...points, point]);
  };
  const marked = query.get("dead");
  const asked = { line: sent(line), net: number_, komi, handicap, rules };
  const score = usePost<Score>("/api/score", finished
    ? { ...asked, ...(marked === null ? {} : { dead: fromLetters(marked, line) }) } : undefined);
  const found = finished ? score.value : undefined;
  const press = (point: number) => {
    if (mine && !stones[point]) playPoint(point).catch(fail);
    else if (found && stones[point]) {
      const chain = chainAt(point, stones, line.width);
      const others = found.dead.filter((each) => !chain.includes(each));
      const dead = found.dead.includes(point) ? others : [...others, ...chain];
      setQuery({ dead: dead.length ? toLetters(dead, line) : "none" }, true);
    }
  };
  const hint = usePost<Prediction>("/api/predict", mine && hinted === ply ? { ...asked, black_rank: rank, white_rank: rank, ply } : undefined);
  const heat = useMemo(() => (hint.value && hinted === ply ? heatOf(hint.value.policy.slice(0, 5)) : undefined), [hint.value, hinted, ply]);

  useEffect(() => {
    if (over || mover === colour || refused) return undefined;
    const control = new AbortController();
    post<{ move: number | null }>("/api/play", { ...asked, rank, opponent: rank, temperature: settings.temperature }, control.signal).then(
      ({ move }) => (move === null ? show(points, { resigned: mover }) : show([...points, move])),
      (failed: Error) => control.signal.aborted || fail(failed),
    );
    return () => control.abort();
  }, [line, resigned]);

  const result = resigned ? (resigned === BLACK ? "W+R" : "B+R") : (found?.result ?? "");
  const names = colour === BLACK ? [t("you"), net.name] : [net.name, t("you")];
  const record = async () => {
    const ranks = colour === BLACK ? { white_rank: rank } : { black_rank: rank };
    return (await send("/api/record", { line: sent(line), komi, handicap, rules, black: names[0], white: names[1], ...ranks, result })).blob();
  };
  const save = async () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await record());
    link.download = "game.sgf";
    link.click();
    URL.revokeObjectURL(link.href);
  };
  const review = async () => navigate(await openFiles([{ name: "game.sgf", content: await record() }]));
  const colourName = (each: number) => t(each === WHITE ? "white" : "black");
  const status = over ? t("gameOver", { result: resultName(result) }) : mine ? t("yourTurn") : t("thinking", { name: net.name });
  const last = points[ply - 1];
  return (
    <div class="columns">
      <section aria-label={t("playBoard", { ply })}>
        <Board
          width={line.width}
          height={line.height}
          stones={stones}
          label={t("playBoard", { ply })}
          onPoint={press}
          {...(last === undefined ? {} : { last })}
          {...(heat ? { heat } : {})}
          {...(found ? { area: found.area, dimmed: found.dead } : {})}
        />
      </section>
      <section class="panel">
        <div aria-live="polite">
          <p><strong>{status}</strong></p>
          {last === pass && !over && <p>{t("passed", { colour: colourName(3 - mover) })}</p>}
          {found && <p>{t("scoreOf", { black: number(found.black), white: number(found.white, 1) })}</p>}
          {found && <p class="muted">{t(found.judged ? "deadJudged" : "deadMarked")}</p>}
          {(error || refused || score.error || hint.error) && (
            <p class="error" role="alert">{error || refused || score.error || hint.error}</p>
          )}
        </div>
        <dl class="facts">
          {[BLACK, WHITE].map((each) => (
            <div key={each}>
              <dt><span class={`stone stone_${each === WHITE ? "white" : "black"}`} aria-hidden="true" />{colourName(each)}</dt>
              <dd>{names[each - 1]}{each !== colour && rank && ` (${rankName(rank)})`}</dd>
            </div>
          ))}
          <div><dt>{t("playKomi")}</dt><dd>{number(komi, 1)}</dd></div>
          <div><dt>{t("rulesLabel")}</dt><dd>{t(RULES[rules as keyof typeof RULES])}</dd></div>
          {handicap > 1 && <div><dt>{t("playHandicap")}</dt><dd>{handicap}</dd></div>}
        </dl>
        <p>{t("captured", { black: takenByBlack, white: takenByWhite })}</p>
        <div class="row">
          <button type="button" disabled={!mine} onClick={() => playPoint(pass).catch(fail)}>{t("pass")}</button>
          <button type="button" disabled={!mine} onClick={() => setHinted(ply)}>{t("hint")}</button>
          <button
            type="button"
            disabled={ply < 1 || (mover === colour && !over && ply < 2)}
            onClick={() => { setError(""); show(points.slice(0, mover === colour ? -2 : -1)); }}
          >
            {t("undoMove")}
          </button>
          {!over && <AskButton label="resignGame" onYes={() => setQuery({ resigned: colour }, true)} />}
          {over && <button type="submit" onClick={() => review().catch(fail)}>{t("reviewGame")}</button>}
          <button type="button" disabled={!ply} onClick={() => save().catch(fail)}>{t("saveGame")}</button>
          <AskButton label="newGame" ask={!over && ply > 0} onYes={() => navigate("/play")} />
        </div>
        {ply > 0 && (
          <>
            <h2>{t("moves")}</h2>
            <ol class="move-list scroll" tabIndex={0} aria-label={t("moves")}>
              {points.map((point, k) => (
                <li key={k}>
                  <span class={`stone stone_${line.moves[k]! & WHITE_BIT ? "white" : "black"}`} aria-hidden="true" />
                  {pointName(point, line.width, line.height)}
                </li>
              ))}
            </ol>
          </>
        )}
      </section>
    </div>
  );
}
