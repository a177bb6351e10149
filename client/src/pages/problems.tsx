// Problems from games: positions in which the move played was a mistake.
import type { Marker } from "@sabaki/shudan";
import { useEffect, useMemo, useState } from "preact/hooks";
import { address, get, stonesAfter, type Params, type ShownLine } from "../api";
import { Board, pointName } from "../board";
import { number, t } from "../i18n";
import { fromLetters, toLetters } from "../lines";
import { setQuery, useRoute } from "../router";
import { useCorpus, useNets } from "../site";
import { Disclosure, FilterForm, useFilter } from "../ui";
import type { GameInfo } from "../uploads";

interface Problem {
  row: number;
  ply: number;
  game: GameInfo;
  line: ShownLine;
  to_play: number;
  /** The best move, then others that are as good. */
  answers: number[];
  /** The move played, and the points that it loses. */
  mistake: number;
  loss: number;
}

interface Found {
  problems: Problem[];
  first: number;
  done: boolean;
}

const COUNT = 10;

/** Show ten problems of the chosen games, one after another. */
export function ProblemsPage() {
  const { query } = useRoute();
  const { nets, opening } = useNets();
  const corpus = useCorpus();
  const filter = useFilter();
  const given = query.get("net");
  const usable = nets.flatMap((net, k) => (net.has_points ? [k] : []));
  const net = usable.find((k) => given === String(k)) ?? usable[0];
  const seed = Math.max(0, Math.round(Number(query.get("seed"))) || 0);
  const asked = net === undefined ? undefined : address("/api/problems", { ...filter, corpus, net, seed });
  const [found, setFound] = useState<Found & { error?: string }>({ problems: [], first: 0, done: false });
  useEffect(() => {
    const control = new AbortController();
    const state: Found = { problems: [], first: 0, done: false };
    setFound(state);
    const search = async () => {
      while (asked && state.problems.length < COUNT && !state.done) {
        const part = await get<Found>(`${asked}&first=${state.first}`, {}, control.signal);
        state.problems.push(...part.problems);
        Object.assign(state, { first: part.first, done: part.done });
        setFound({ ...state, problems: state.problems.slice() });
      }
    };
    search().catch((error: Error) => control.signal.aborted || setFound({ ...state, done: true, error: error.message }));
    return () => control.abort();
  }, [asked]);
  const at = Math.min(Math.max(0, Math.round(Number(query.get("at"))) || 0), COUNT - 1);
  const problem = found.problems[at];
  const letters = (query.get("answers") ?? "").split(",");
  const answers = found.problems.map(({ line }, k) => fromLetters(letters[k] ?? "", line)[0]);
  // Other games, nets or seeds have other problems.
  const renew = (changes: Params) => setQuery({ ...changes, at: undefined, answers: undefined });
  const answered = (point: number) => {
    if (answers[at] !== undefined) return;
    const given = Array.from({ length: COUNT }, (_, k) => (k === at ? toLetters([point], problem!.line) : letters[k] ?? ""));
    setQuery({ answers: given.join(",") }, true);
  };
  const right = found.problems.filter((each, k) => each.answers.includes(answers[k]!)).length;
  const complete = found.problems.length >= COUNT || found.done;
  return (
    <>
      <h1>{t("problems")}</h1>
      <div class="columns">
        <section aria-label={t("positionLabel")}>
          {problem && (
            <Exercise
              key={`${seed} ${problem.row} ${problem.ply}`}
              problem={problem}
              corpus={corpus}
              given={answers[at]}
              onAnswer={answered}
            />
          )}
          {problem && (
            <div class="row">
              <button type="button" disabled={at === 0} onClick={() => setQuery({ at: at - 1 || undefined })}>{t("previous")}</button>
              <strong>{t("problemOf", { k: at + 1, count: found.problems.length })}</strong>
              <button type="button" disabled={at + 1 >= found.problems.length} onClick={() => setQuery({ at: at + 1 })}>{t("next")}</button>
              <span class="muted">{t("problemsRight", { right, count: answers.filter((each) => each !== undefined).length })}</span>
            </div>
          )}
        </section>
        <div>
          {found.error && <p class="error" role="alert">{found.error}</p>}
          {net === undefined && <p>{t(opening ? "netsOpening" : "pointsNet")}</p>}
          {net !== undefined && !complete && (
            <p role="status">
              {t("problemsSearched", { count: found.problems.length, games: number(found.first) })}{" "}
              <progress max={COUNT} value={found.problems.length} aria-label={t("problems")} />
            </p>
          )}
          {complete && !found.error && !found.problems.length && <p role="status">{t("problemsNone")}</p>}
          <div class="panel" hidden={net === undefined}>
            <p>{t("problemsPoints")}</p>
            <div class="row">
              {usable.length > 1 && (
                <select aria-label={t("netLabel")} value={net} onChange={(event) => renew({ net: event.currentTarget.value })}>
                  {usable.map((k) => <option key={k} value={k}>{nets[k]!.name}</option>)}
                </select>
              )}
              <button type="button" onClick={() => renew({ seed: seed + 1 })}>{t("problemsOthers")}</button>
            </div>
          </div>
          <Disclosure title={t("filter")}><FilterForm /></Disclosure>
        </div>
      </div>
    </>
  );
}

interface ExerciseProps {
  problem: Problem;
  corpus: number;
  given: number | undefined;
  onAnswer: (point: number) => void;
}

function Exercise({ problem, corpus, given, onAnswer }: ExerciseProps) {
  const { line, answers, mistake, loss } = problem;
  const stones = useMemo(() => stonesAfter(line, line.steps.length), [line]);
  const last = line.moves.at(-1);
  const name = (point: number) => pointName(point, line.width, line.height);
  const side = t(problem.to_play === 2 ? "white" : "black");
  const markers = new Map<number, Marker>();
  if (given !== undefined) {
    markers.set(given, { type: "cross" });
    markers.set(mistake, { type: "triangle" });
    for (const answer of answers) markers.set(answer, { type: "square" });
  }
  return (
    <>
      <Board
        width={line.width}
        height={line.height}
        stones={stones}
        label={t("toMove", { colour: side })}
        markers={markers}
        onPoint={(point) => !stones[point] && onAnswer(point)}
        {...(last === undefined ? {} : { last: last & 0x3fff })}
      />
      <p role="status">
        {given === undefined ? <strong>{t("toMove", { colour: side })}</strong> : (
          <>
            <strong>{answers.includes(given) ? t("problemRight", { move: name(given) }) : t("problemWrong", { answer: answers.map(name).join(", ") })}</strong>{" "}
            {t("problemLoss", { answer: name(answers[0]!), mistake: name(mistake), loss: number(loss, 1) })}{" "}
            <a href={address(`/game/${corpus}/${problem.row}`, { ply: problem.ply })}>{problem.game.black || "?"} – {problem.game.white || "?"}</a>
          </>
        )}
      </p>
    </>
  );
}
