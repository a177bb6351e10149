import type { Marker } from "@sabaki/shudan";
import { useMemo } from "preact/hooks";
import { POINT_MASK, WHITE, address, stonesAfter, useGet, usePost, type Line, type ShownLine } from "../api";
import { Board, HeatLegend, heatOf, pointName } from "../board";
import { errorText, rankName, resultName, t } from "../i18n";
import { captures, conditions, continued, fromLetters, moveNumbers, moverAt, sent, toLetters } from "../lines";
import { AnalysisChart, DifferentMoves, LEAST_LOSS, MoveButtons, ReviewedMoves, TopMoves, useAnalysis, valueText, type Prediction, type Values } from "../review";
import { setQuery, useRoute } from "../router";
import { useNets } from "../site";
import { RankSelect, useStepKeys } from "../ui";
import { firstMove, lineOfPath, pathThrough, storedUpload, variationsAt, type GameInfo, type TreeNode, type TreePath, type UploadedGame } from "../uploads";
import { Notes, UploadPage } from "./upload";

interface Shown {
  line: ShownLine;
  info: GameInfo;
}

/** Show a game of a catalogue, the games of files that the user opened, or one of these. */
export function GamePage() {
  const [, first = "", second = "", third] = useRoute().parts;
  if (first !== "upload") return <CatalogueGame corpus={first} row={second} />;
  const upload = storedUpload(second);
  const game = upload?.games[Number(third)];
  if (upload && third === undefined) return <UploadPage key={second} upload={upload} />;
  if (!game?.line || !game.info) return <><h1>{t("games")}</h1><p class="error" role="alert">{t("uploadMissing")}</p></>;
  return <OpenedGame game={game} line={game.line} info={game.info} {...(upload!.games.length > 1 ? { list: `/game/upload/${second}` } : {})} />;
}

function CatalogueGame({ corpus, row }: { corpus: string; row: string }) {
  const { value, error } = useGet<Shown>(`/api/games/${encodeURIComponent(corpus)}/${encodeURIComponent(row)}`);
  if (error) return <><h1>{t("games")}</h1><p class="error" role="alert">{error}</p><p><a href="/">{t("toGames")}</a></p></>;
  if (!value) return <p class="muted">{t("loading")}</p>;
  return <GameView {...value} row={[corpus, row]} />;
}

/** Show a line of an opened game: the game itself, or the variation that the parameter `branch` names by its node. */
function OpenedGame({ game, line, info, list }: { game: UploadedGame; line: Line; info: GameInfo; list?: string }) {
  const branch = Number(useRoute().query.get("branch") ?? 0);
  const chosen = branch in game.nodes ? branch : 0;
  const path = useMemo(() => (game.nodes.length ? pathThrough(game.nodes, chosen) : { nodes: [], plies: [] }), [game, chosen]);
  const base = useMemo(() => (chosen ? lineOfPath(game.nodes, path, line) : line), [game, path]);
  const { value, error, loading } = usePost<ShownLine>("/api/line", { line: sent(base) });
  if (error) return <><h1>{t("games")}</h1><p class="error" role="alert">{error}</p><p><a href="/">{t("toGames")}</a></p></>;
  if (!value || (loading && value.moves.length !== base.moves.length)) return <p class="muted">{t("loading")}</p>;
  return (
    <>
      {list && <p><a href={list}>{t("allOfFile")}</a></p>}
      <Notes game={game} />
      <GameView line={value} info={info} tree={{ nodes: game.nodes, path, branch: chosen }} />
    </>
  );
}

interface Tree {
  nodes: TreeNode[];
  path: TreePath;
  /** The node that names the variation on show; 0 for the game. */
  branch: number;
}

function GameView({ line, info, row, tree }: Shown & { row?: [string, string]; tree?: Tree }) {
  const { query } = useRoute();
  const { nets, opening } = useNets();
  const last = line.steps.length;
  const base = Math.min(Math.max(Math.round(Number(query.get("ply") ?? 0)) || 0, 0), last);
  const variation = fromLetters(query.get("line") ?? "", line);
  const letters = toLetters(variation, line);
  const tried = usePost<ShownLine>("/api/line", variation.length ? { line: sent(line, continued(line, base, variation)) } : undefined);
  // Until the server has answered, the position before the variation's last moves stays.
  const current = variation.length && tried.value ? tried.value : line;
  const ply = variation.length && tried.value ? current.steps.length : base;
  const stones = useMemo(() => stonesAfter(current, ply), [current, ply]);
  const [takenByBlack, takenByWhite] = useMemo(() => captures(current, ply), [current, ply]);
  const mover = moverAt(variation.length ? { ...current, moves: current.moves.slice(0, ply) } : line, ply);
  const showNumbers = query.get("numbers") === "1";
  const showHeat = query.get("heat") !== "0" && nets.length > 0;
  // By default the first net, and those that the values and the ranks come from.
  const standard = [0, nets.findIndex((net) => net.has_points), nets.findIndex((net) => net.takes_ranks)];
  const chosen = [...new Set(query.get("nets")?.split(",").map(Number) ?? standard)].filter((k) => k in nets);
  const main = chosen[0];
  // The net of all values on the page: one whose points hold, if there is one.
  const judge = chosen.find((k) => nets[k]!.has_points) ?? main;
  const ranked = chosen.find((k) => nets[k]!.takes_ranks);
  const hasPoints = judge !== undefined && nets[judge]!.has_points;
  const showOwnership = query.get("area") === "1" && hasPoints;
  const recorded = info.ranks.filter((each, k): each is string => each !== null && info.ranks.indexOf(each) === k);
  const given = query.get("ranks");
  const ranks = given === null ? recorded : given.split(",").filter(Boolean);

  const asked = (net: number, rank?: string) => {
    const [black, white] = !nets[net]!.takes_ranks ? ["", ""] : rank !== undefined ? [rank, rank] : given === null ? info.ranks : [ranks[0], ranks[0]];
    const shown = sent(current, current.moves.slice(0, Math.max(ply, variation.length ? ply : ply + 1)));
    return { line: shown, ply, net, black_rank: black ?? "", white_rank: white ?? "", ...conditions(info) };
  };
  const mainRank = main !== undefined && nets[main]!.takes_ranks ? ranks[0] ?? "" : undefined;
  const wanted = main === undefined || !(showHeat || showOwnership) ? undefined
    : showOwnership ? { ...asked(judge!), ownership: true } : asked(main, mainRank);
  const prediction = usePost<Prediction>("/api/predict", wanted);
  const heat = useMemo(
    () => (prediction.value && showHeat && !showOwnership ? heatOf(prediction.value.policy) : undefined),
    [prediction.value, showHeat, showOwnership],
  );
  const values = usePost<Values>("/api/candidates", judge === undefined || !nets[judge]!.has_value ? undefined : asked(judge));
  const shownValues = values.loading ? undefined : values.value;
  const whole = { line: sent(line), ply: undefined };
  const analysis = useAnalysis(judge === undefined ? undefined : { ...asked(judge), ...whole });
  const finished = analysis.total > 0 && analysis.rows.length === analysis.total;
  // The move that the game goes on with, and the better one.
  const played = variation.length ? undefined : line.moves[ply];
  const [, , , , best, , loss] = analysis.rows[variation.length ? -1 : ply] ?? [];
  const better = best != null && (loss ?? 0) >= LEAST_LOSS ? best : undefined;
  const here = tree ? tree.path.nodes.filter((_, k) => tree.path.plies[k] === base).map((k) => tree.nodes[k]!) : [];
  const comment = variation.length ? "" : here.map((node) => node.comment).filter(Boolean).join("\n");
  const branches = tree && !variation.length ? variationsAt(tree.nodes, tree.path, base) : [];

  const go = (target: number, replace = true) =>
    setQuery({ ply: Math.min(Math.max(target, 0), last) || undefined, line: undefined }, replace);
  const step = (by: number) => {
    if (!variation.length) go(base + by);
    else if (by < 0) setQuery({ line: toLetters(variation.slice(0, Math.max(variation.length + by, 0)), line) }, true);
  };
  const play = (point: number) => {
    if (stones[point]) return;
    const next = line.moves[base];
    if (!variation.length && next !== undefined && (next & POINT_MASK) === point) go(base + 1);
    else setQuery({ ply: base || undefined, line: letters + toLetters([point], line) });
  };
  useStepKeys(step);

  const numbers = showNumbers ? moveNumbers(current, stones, ply, variation.length ? base : 0) : undefined;
  const markers = useMemo(() => {
    const found = new Map<number, Marker>();
    if (played !== undefined && showHeat) found.set(played & POINT_MASK, { type: "triangle" });
    if (better !== undefined) found.set(better, { type: "square" });
    for (const [point, k] of numbers ?? []) found.set(point, { type: "label", label: String(k) });
    if (!variation.length) for (const { marks } of here) for (const [point, type, label] of marks) found.set(point, { type, label });
    return found;
  }, [showNumbers, showHeat, current, ply, played, better, tree]);
  const lastWord = current.moves[ply - 1];
  const place = row ? { corpus: row[0], row: row[1] } : undefined;
  return (
    <div class="columns game">
      <section aria-label={t("positionLabel")}>
        <h1 class="anywhere">
          <Player colour="black" name={info.black} rank={info.black_rank} /> –{" "}
          <Player colour="white" name={info.white} rank={info.white_rank} />
        </h1>
        <Board
          width={line.width}
          height={line.height}
          stones={stones}
          label={t("boardOf", { ply })}
          onPoint={play}
          onWheel={step}
          {...(lastWord === undefined ? {} : { last: lastWord & POINT_MASK })}
          markers={markers}
          {...(heat ? { heat } : {})}
          {...(showOwnership && prediction.value?.ownership ? { ownership: prediction.value.ownership } : {})}
        />
        <input
          class="wide"
          type="range"
          min={0}
          max={last}
          value={base}
          aria-label={t("moveOf", { ply: base, moves: last })}
          onInput={(event) => go(Number(event.currentTarget.value))}
        />
        <div class="row">
          <StepButton sign="«" label={t("firstMove")} disabled={!base && !variation.length} onClick={() => go(0)} />
          <StepButton sign="‹" label={t("previousMove")} disabled={!base && !variation.length} onClick={() => step(-1)} />
          <StepButton sign="›" label={t("followingMove")} disabled={base === last || variation.length > 0} onClick={() => step(1)} />
          <StepButton sign="»" label={t("lastPosition")} disabled={base === last} onClick={() => go(last)} />
          <button type="button" onClick={() => play(line.width * line.height)}>{t("pass")}</button>
          <strong>{t("moveOf", { ply, moves: variation.length ? ply : last })}</strong>
        </div>
        {variation.length > 0 && (
          <MoveButtons
            label={t("variation", { ply: base })}
            line={line}
            points={variation}
            shown={variation.length}
            onPick={(shown) => setQuery({ line: toLetters(variation.slice(0, shown), line) })}
          >
            <button type="button" onClick={() => go(base, false)}>{t("backToGame")}</button>
          </MoveButtons>
        )}
        {(tried.error ?? tried.value?.illegal) && variation.length > 0 && (
          <p class="error" role="alert">{tried.error ?? errorText(tried.value!.illegal!)}</p>
        )}
        <div class="row spread">
          <p>
            {t("toMove", { colour: t(mover === WHITE ? "white" : "black") })}
            <span class="muted"> · {t("captured", { black: takenByBlack, white: takenByWhite })}</span>
          </p>
          <span class="row">
            {hasPoints && <Toggle name="area" on={showOwnership} label={t("ownership")} />}
            <Toggle name="heat" on={showHeat} standard label={t("heatMap")} />
            <Toggle name="numbers" on={showNumbers} label={t("moveNumbers")} />
          </span>
        </div>
        {showHeat && <HeatLegend />}
        {showHeat && played !== undefined && (
          <p class="muted">
            {t("markPlayed", { move: pointName(played & POINT_MASK, line.width, line.height) })}
            {better !== undefined && <> {t("markBetter", { move: pointName(better, line.width, line.height) })}</>}
          </p>
        )}
        {comment && <p class="comment anywhere">{comment}</p>}
        {tree && (branches.length > 0 || tree.branch > 0) && (
          <nav class="row" aria-label={t("variations")}>
            <span>{t("variations")}</span>
            {branches.map((node, k) => {
              const point = firstMove(tree.nodes, node);
              const label = point === undefined ? t("setupVariation") : pointName(point, line.width, line.height);
              const target = base + (point === undefined ? 0 : 1);
              return (
                <button type="button" key={node} onClick={() => setQuery({ branch: node, ply: target || undefined, line: undefined })}>
                  {String.fromCharCode(65 + (k % 26))} {label}
                </button>
              );
            })}
            {tree.branch > 0 && <button type="button" onClick={() => setQuery({ branch: undefined, ply: leftAt(tree) || undefined, line: undefined })}>{t("backToGame")}</button>}
          </nav>
        )}
        <p class="row">
          {place && !variation.length && (
            <a class="button" href={address("/explore", { corpus: place.corpus, game: place.row, ply: base })}>{t("openExplorer")}</a>
          )}
          {place && !variation.length && (
            <>
              <a class="button" href={address("/", { corpus: place.corpus, position: `${place.row}-${base}..` })}>{t("findPosition")}</a>
              <a class="button" href={address("/search", { corpus: place.corpus, game: place.row, ply: base })}>{t("findCorner")}</a>
            </>
          )}
          {place && <a class="button" href={address("/planes", { ...place, ply: base, line: letters })}>{t("openPlanes")}</a>}
          {place && <a class="button" href={`/api/games/${place.corpus}/${place.row}/sgf`} download>{t("downloadSgf")}</a>}
        </p>
      </section>
      <div>
        <section class="panel" aria-labelledby="nets">
          <h2 id="nets">{t("topMoves")}</h2>
          {!nets.length && <p>{t(opening ? "netsOpening" : "noNets")}</p>}
          <div class="row">
            {nets.map((net, k) => (
              <label key={k}>
                <input
                  type="checkbox"
                  checked={chosen.includes(k)}
                  onChange={(event) => {
                    const others = chosen.filter((each) => each !== k);
                    setQuery({ nets: (event.currentTarget.checked ? [...others, k] : others).join(",") || "none" }, true);
                  }}
                />{" "}
                {net.name}
              </label>
            ))}
            {ranked !== undefined && ["rankLabel" as const, "rankSecond" as const].map((label, k) => (
              <RankSelect
                key={label}
                label={label}
                value={ranks[k] ?? ""}
                none={k ? "rankNone" : "rankUnknown"}
                onPick={(rank) => {
                  const both = k ? [ranks[0] ?? "", rank] : [rank, ranks[1] ?? ""];
                  setQuery({ ranks: both.filter((each, at) => each && both.indexOf(each) === at).join(",") || "," }, true);
                }}
              />
            ))}
          </div>
          <div class="side-by-side">
            {chosen.map((k) => {
              const { name, takes_ranks, has_value } = nets[k]!;
              const given = takes_ranks ? (ranks.length ? ranks.slice(0, 2) : [""]) : [];
              return (
                <TopMoves
                  key={k}
                  caption={given.length === 1 && given[0] ? `${name} · ${rankName(given[0])}` : name}
                  bodies={given.length ? given.map((rank) => asked(k, rank)) : [asked(k)]}
                  ranks={given.map(rankName)}
                  line={line}
                  played={played === undefined ? undefined : played & POINT_MASK}
                  onPick={play}
                  hasWin={k === judge && has_value}
                  hasLead={k === judge && hasPoints}
                  values={shownValues}
                />
              );
            })}
          </div>
          {values.error && <p class="error" role="alert">{values.error}</p>}
          <p>{valueText(shownValues?.win, shownValues?.lead)}&nbsp;</p>
          {nets.length > 0 && !nets.some((net) => net.has_points) && <p class="muted">{t("pointsNet")}</p>}
        </section>
        {analysis.error && <p class="error" role="alert">{analysis.error}</p>}
        {main !== undefined && !analysis.total && !analysis.error && <section class="panel waiting">{t("loading")}</section>}
        {analysis.total > 0 && (
          <>
            <AnalysisChart analysis={analysis} line={line} ply={base} onPick={(target) => go(target, false)} />
            {finished && <ReviewedMoves rows={analysis.rows} line={line} />}
          </>
        )}
        {ranked !== undefined && ranks.length > 1 && (
          <DifferentMoves
            bodies={[{ ...asked(ranked, ranks[0]), ...whole }, { ...asked(ranked, ranks[1]), ...whole }]}
            ranks={[rankName(ranks[0]!), rankName(ranks[1]!)]}
            line={line}
          />
        )}
        <Information info={info} />
      </div>
    </div>
  );
}

/** Return the number of moves after which the variation on show leaves the game. */
function leftAt({ nodes, path }: Tree): number {
  const game = pathThrough(nodes, 0).nodes;
  const left = path.nodes.findIndex((node, k) => node !== game[k]);
  return left > 0 ? path.plies[left - 1]! : 0;
}

function Player({ colour, name, rank }: { colour: "black" | "white"; name: string; rank: string }) {
  return (
    <>
      <span class={`stone stone_${colour}`} role="img" aria-label={t(colour)} />
      {name || "?"} <small>{rankName(rank)}</small>
    </>
  );
}

/** A button with a sign instead of its label. */
function StepButton(props: { sign: string; label: string; disabled: boolean; onClick: () => void }) {
  const { sign, label, ...others } = props;
  return <button type="button" class="step" aria-label={label} title={label} {...others}>{sign}</button>;
}

function Toggle({ name, on, label, standard = false }: { name: string; on: boolean; label: string; standard?: boolean }) {
  const change = () => setQuery({ [name]: on === standard ? (on ? "0" : "1") : undefined }, true);
  return <label><input type="checkbox" checked={on} onChange={change} /> {label}</label>;
}

function Information({ info }: { info: GameInfo }) {
  const rows: [string, string | number | null][] = [
    [t("dateLabel"), info.date], [t("eventLabel"), [info.event, info.round].filter(Boolean).join(", ")],
    [t("placeLabel"), info.place], [t("resultLabel"), resultName(info.result)], [t("komiLabel"), info.komi],
    [t("handicapLabel"), info.handicap], [t("rulesLabel"), info.rules],
  ];
  return (
    <section class="panel" aria-labelledby="information">
      <h2 id="information">{t("information")}</h2>
      <dl class="facts">
        {rows.filter(([, value]) => value !== null && value !== "").map(([label, value]) => (
          <div key={label}><dt>{label}</dt><dd>{value}</dd></div>
        ))}
      </dl>
    </section>
  );
}
