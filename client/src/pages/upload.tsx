// The games of files that the user opened.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { POINT_MASK, WHITE_BIT } from "../api";
import { pointName } from "../board";
import { number, percent, rankName, reasonName, resultName, t, type Key } from "../i18n";
import { conditions, sent } from "../lines";
import { analyse } from "../review";
import { setQuery, useRoute } from "../router";
import { useNets } from "../site";
import type { Upload, UploadedGame } from "../uploads";
import { RankSelect } from "../ui";

function noteText([kind, ...values]: UploadedGame["notes"][number]): string {
  switch (kind) {
    case "dropped": return t("noteDropped", { reason: reasonName(String(values[0])) });
    case "illegal": return t("noteIllegal", { reason: reasonName(String(values[0])), number: values[1]! });
    case "truncated": return t("noteTruncated");
    case "encoding": return t("noteEncoding", { declared: values[0]!, used: values[1]! });
    case "long": return t("noteLong", { moves: values[0]! });
    case "tree": return t("noteTree");
    default: return t("noteCharacters");
  }
}

/** Say what could not be read of a game. */
export function Notes({ game }: { game: UploadedGame }) {
  if (!game.notes.length) return null;
  return <p class="error" role="status">{game.notes.map(noteText).join(" ")}</p>;
}

/** List the games of files. */
export function UploadPage({ upload }: { upload: Upload }) {
  const [, , key] = useRoute().parts;
  const files = new Set(upload.games.map(({ file }) => file));
  return (
    <>
      <h1>{t("yourGames")}</h1>
      {upload.errors.map((error) => <p class="error" role="alert" key={error}>{error}</p>)}
      {upload.more && <p class="error" role="status">{t("uploadMore", { count: upload.games.length })}</p>}
      <table class="games">
        <thead>
          <tr>
            <th scope="col">{t("black")}</th>
            <th scope="col">{t("white")}</th>
            <th scope="col" class="number">{t("date")}</th>
            <th scope="col">{t("event")}</th>
            <th scope="col">{t("result")}</th>
            <th scope="col" class="number">{t("moves")}</th>
          </tr>
        </thead>
        <tbody>
          {upload.games.map((game, k) => (
            <tr key={k} class={game.line ? undefined : "dropped"}>
              <td class="black">
                {game.info
                  ? <a href={`/game/upload/${key}/${k}`}>{game.info.black || "?"} <small class="muted">{rankName(game.info.black_rank)}</small></a>
                  : game.name}
              </td>
              <td class="white">{game.info && <>{game.info.white || "?"} <small class="muted">{rankName(game.info.white_rank)}</small></>}</td>
              <td class="number">{game.info?.date}</td>
              <td class="event">
                {[game.info?.event, files.size > 1 ? game.file : "", game.name.startsWith("the file") ? "" : game.name].filter(Boolean).join(" · ")}
                {game.notes.length > 0 && <small class="error"> {game.notes.map(noteText).join(" ")}</small>}
              </td>
              <td>{game.info && resultName(game.info.result)}</td>
              <td class="number">{game.line?.moves.length}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <Summary games={upload.games} upload={key!} />
    </>
  );
}

/** A move of the player, where players of the rank would play elsewhere. */
interface Difference {
  game: number;
  ply: number;
  played: string;
  best: string;
  chance: number;
  bestChance: number;
  /** Points lost; null without a net that gives points. */
  loss: number | null;
  phase: Key;
  kind: Key;
}

const LISTED = 10;
/** Last moves of the opening and of the middle game; distance within which a move answers the one before. */
const [OPENING, MIDDLE, NEAR] = [50, 150, 4];

function differencesOf(game: UploadedGame, k: number, player: string, rows: Awaited<ReturnType<typeof analyse>>): Difference[] {
  const { line, info } = game as { line: NonNullable<UploadedGame["line"]>; info: NonNullable<UploadedGame["info"]> };
  const { width, height, moves } = line;
  const near = (point: number, ply: number) => {
    const last = (moves[ply - 1] ?? width * height) & POINT_MASK;
    if (Math.max(last, point) >= width * height) return false;
    return Math.max(Math.abs((last % width) - (point % width)), Math.abs(Math.floor(last / width) - Math.floor(point / width))) <= NEAR;
  };
  return moves.flatMap((word, ply) => {
    const [chance, , , , best, bestChance, loss] = rows[ply] ?? [];
    const white = (word & WHITE_BIT) !== 0;
    if ((white ? info.white : info.black) !== player || typeof chance !== "number" || typeof best !== "number") return [];
    const point = word & POINT_MASK;
    const [local, answer] = [near(point, ply), near(best, ply)];
    return [{
      game: k, ply, chance, bestChance: bestChance ?? 0,
      played: pointName(point, width, height), best: pointName(best, width, height),
      loss: loss ?? null,
      phase: ply < OPENING ? "phaseOpening" : ply < MIDDLE ? "phaseMiddle" : "phaseEnd",
      kind: local ? (answer ? "kindLocal" : "kindAnswered") : answer ? "kindElsewhere" : "kindDirection",
    } satisfies Difference];
  });
}

/** Compare the moves of a player with those of stronger ones, over all games. */
function Summary({ games, upload }: { games: UploadedGame[]; upload: string }) {
  const { query } = useRoute();
  const { nets } = useNets();
  const counts = new Map<string, number>();
  for (const { info, line } of games) {
    for (const name of line && info ? new Set([info.black, info.white]) : []) if (name) counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  const players = [...counts].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  const player = query.get("player") ?? players[0] ?? "";
  const net = Number(query.get("net") ?? 0) in nets ? Number(query.get("net") ?? 0) : 0;
  const rank = query.get("rank") ?? "7d";
  const [state, setState] = useState<{ done: number; total: number; moves: Difference[]; error?: string }>();
  const control = useRef<AbortController>();
  const key = `${player} ${net} ${rank}`;
  // Not useEffect, which runs late: it would stop a comparison that is started at once.
  useLayoutEffect(() => {
    setState(undefined);
    return () => control.current?.abort();
  }, [key]);
  if (!nets.length || !players.length) return null;
  const compare = async () => {
    control.current = new AbortController();
    const own = games.flatMap((game, k) => (game.line && game.info && [game.info.black, game.info.white].includes(player) ? [[game, k] as const] : []));
    const found: Difference[] = [];
    setState({ done: 0, total: own.length, moves: [] });
    try {
      for (const [done, [game, k]] of own.entries()) {
        const ranks = nets[net]!.takes_ranks ? { black_rank: rank, white_rank: rank } : {};
        const body = { line: sent(game.line!), net, ...ranks, ...conditions(game.info!) };
        found.push(...differencesOf(game, k, player, await analyse(body, control.current.signal, () => undefined)));
        setState({ done: done + 1, total: own.length, moves: found.slice() });
      }
    } catch (error) {
      if (!control.current.signal.aborted) setState({ done: own.length, total: own.length, moves: found, error: (error as Error).message });
    }
  };
  const moves = state?.moves ?? [];
  const points = moves.some(({ loss }) => loss !== null);
  const weight = ({ loss, bestChance, chance }: Difference) => (points ? loss ?? 0 : bestChance - chance);
  const most = moves.slice().sort((a, b) => weight(b) - weight(a)).slice(0, LISTED);
  return (
    <section class="panel" aria-labelledby="summary">
      <h2 id="summary">{t("summary")}</h2>
      <div class="row">
        <label>
          {t("player")}{" "}
          <select value={player} onChange={(event) => setQuery({ player: event.currentTarget.value }, true)}>
            {players.map((name) => <option key={name} value={name}>{name}</option>)}
          </select>
        </label>
        {nets.length > 1 && (
          <label>
            {t("netLabel")}{" "}
            <select value={net} onChange={(event) => setQuery({ net: event.currentTarget.value }, true)}>
              {nets.map(({ name }, k) => <option key={k} value={k}>{name}</option>)}
            </select>
          </label>
        )}
        {nets[net]!.takes_ranks && (
          <RankSelect label="rankSecond" value={rank} onPick={(each) => setQuery({ rank: each }, true)} />
        )}
        <button type="button" disabled={state !== undefined && state.done < state.total} onClick={() => void compare()}>{t("compare")}</button>
      </div>
      {state?.error && <p class="error" role="alert">{state.error}</p>}
      {state && state.done < state.total && (
        <p role="status">
          {t("compared", { done: state.done, total: state.total })} <progress max={state.total} value={state.done} aria-label={t("summary")} />
        </p>
      )}
      {moves.length > 0 && (
        <>
          <div class="side-by-side">
            <Shares title={t("byPhase")} moves={moves} by="phase" keys={["phaseOpening", "phaseMiddle", "phaseEnd"]} points={points} />
            <Shares title={t("byKind")} moves={moves} by="kind" keys={["kindLocal", "kindAnswered", "kindElsewhere", "kindDirection"]} points={points} />
          </div>
          <h3>{t("mostDifferent")}</h3>
          <ol>
            {most.map((each) => (
              <li key={`${each.game} ${each.ply}`}>
                <a href={`/game/upload/${upload}/${each.game}?ply=${each.ply}`}>
                  {t("difference", {
                    game: each.game + 1, number: each.ply + 1, played: each.played, best: each.best,
                    chance: percent(each.chance, 0), share: percent(each.bestChance, 0),
                  })}
                  {each.loss !== null && ` · ${t("lossPoints", { loss: number(each.loss, 1) })}`}
                </a>
              </li>
            ))}
          </ol>
        </>
      )}
    </section>
  );
}

/** A table of moves by phase or kind: their number, the share that players of the rank expect, and the mean difference. */
function Shares({ title, moves, by, keys, points }: { title: string; moves: Difference[]; by: "phase" | "kind"; keys: Key[]; points: boolean }) {
  const mean = (values: number[]) => values.reduce((sum, each) => sum + each, 0) / values.length;
  return (
    <table>
      <caption>{title}</caption>
      <thead>
        <tr><td /><th class="number">{t("moves")}</th><th class="number">{t("agreed")}</th><th class="number">{t(points ? "meanLoss" : "meanSurprise")}</th></tr>
      </thead>
      <tbody>
        {keys.map((key) => [key, moves.filter((each) => each[by] === key)] as const).filter(([, own]) => own.length).map(([key, own]) => (
          <tr key={key}>
            <th scope="row">{t(key)}</th>
            <td class="number">{number(own.length)}</td>
            <td class="number">{percent(mean(own.map(({ played, best }) => Number(played === best))), 0)}</td>
            <td class="number">{points ? number(mean(own.map(({ loss }) => loss ?? 0)), 1) : percent(mean(own.map(({ chance, bestChance }) => bestChance - chance)), 0)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
