// Problems that `kifu problems` found: positions in which strong players find a right move and weak ones do not.
import type { Marker } from "@sabaki/shudan";
import { useMemo, useState } from "preact/hooks";
import { address, POINT_MASK, stonesAfter, useGet, WHITE, type ShownLine } from "../api";
import { Board, pointName } from "../board";
import { number, percent, rankName, t } from "../i18n";
import { fromLetters, moveNumbers, moverAt, toLetters } from "../lines";
import { MoveButtons } from "../review";
import { setQuery, useRoute } from "../router";
import { useCorpus } from "../site";
import { useStepKeys } from "../ui";
import type { GameInfo } from "../uploads";

interface Problem {
  row: number;
  ply: number;
  /** Two ranks, such as 7d/10k, and the chance that each chooses a right move. */
  ranks: string;
  strong: number;
  weak: number;
  /** The best move, then others that are as good. */
  answers: number[];
  /** The likeliest move of the weaker rank, and the points that it loses. */
  mistake: number;
  loss: number;
  game: GameInfo;
  /** The moves before the position, the best one and likely ones after it. */
  line: ShownLine;
}

const COUNT = 10;

/** Return the names of two ranks such as 7d/10k. */
function rankNames(ranks: string): { strong: string; weak: string } {
  const [strong = "", weak = ""] = ranks.split("/").map(rankName);
  return { strong, weak };
}

/** Show the problems of a catalogue for two ranks, one after another. */
export function ProblemsPage() {
  const { query } = useRoute();
  const corpus = useCorpus();
  const at = Math.max(0, Math.round(Number(query.get("at"))) || 0);
  const first = at - (at % COUNT);
  const { value, error } = useGet<{ ranks: [ranks: string, count: number][]; problems: Problem[] }>(
    "/api/problems", { corpus, ranks: query.get("ranks"), first },
  );
  const [ranks, count] = value?.ranks.find(([each]) => each === query.get("ranks")) ?? value?.ranks[0] ?? ["", 0];
  const problems = value?.problems ?? [];
  const problem = problems[at - first];
  const letters = (query.get("answers") ?? "").split(",");
  const answers = problems.map(({ line }, k) => fromLetters(letters[k] ?? "", line)[0]);
  const go = (target: number) =>
    setQuery({ at: target || undefined, answers: target >= first && target < first + COUNT ? query.get("answers") : undefined });
  const answered = (point: number) => {
    if (answers[at - first] !== undefined) return;
    const given = Array.from({ length: COUNT }, (_, k) => (k === at - first ? toLetters([point], problem!.line) : letters[k] ?? ""));
    setQuery({ answers: given.join(",") }, true);
  };
  const right = problems.filter((each, k) => each.answers.includes(answers[k]!)).length;
  const done = answers.filter((each) => each !== undefined).length;
  return (
    <>
      <h1>{t("problems")}</h1>
      <div class="columns">
        <section aria-label={t("positionLabel")}>
          {problem && <Exercise key={`${ranks} ${at}`} problem={problem} corpus={corpus} given={answers[at - first]} onAnswer={answered} />}
          {problem && (
            <div class="row">
              <button type="button" disabled={at === 0} onClick={() => go(at - 1)}>{t("previous")}</button>
              <strong>{t("problemOf", { k: number(at + 1), count: number(count) })}</strong>
              <button type="button" disabled={at + 1 >= count} onClick={() => go(at + 1)}>{t("next")}</button>
              {done > 0 && <span class="muted">{t("problemsRight", { right, count: done })}</span>}
            </div>
          )}
        </section>
        <div>
          {error && <p class="error" role="alert">{error}</p>}
          {value && !value.ranks.length && <p>{t("problemsMissing")}</p>}
          {count > 0 && (
            <div class="panel">
              <p>{t("problemsTask", rankNames(ranks))}</p>
              <select
                aria-label={t("rankLabel")}
                value={ranks}
                onChange={(event) => setQuery({ ranks: event.currentTarget.value, at: undefined, answers: undefined })}
              >
                {value!.ranks.map(([each, problems]) => (
                  <option key={each} value={each}>{t("problemsFor", { ...rankNames(each), count: number(problems) })}</option>
                ))}
              </select>
            </div>
          )}
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
  const { line, ply, answers, mistake } = problem;
  const [shown, setShown] = useState(0);
  const stones = useMemo(() => stonesAfter(line, ply + shown), [line, shown]);
  const last = line.moves[ply + shown - 1];
  const name = (point: number) => pointName(point, line.width, line.height);
  const side = t(moverAt(line, ply) === WHITE ? "white" : "black");
  const [best, ...good] = answers as [number, ...number[]];
  const { strong, weak } = rankNames(problem.ranks);
  useStepKeys((by) => given !== undefined && setShown(Math.min(Math.max(shown + by, 0), line.moves.length - ply)));
  const markers = new Map<number, Marker>();
  if (shown) for (const [point, k] of moveNumbers(line, stones, ply + shown, ply)) markers.set(point, { type: "label", label: String(k) });
  else if (given !== undefined) {
    markers.set(given, { type: "cross" });
    markers.set(mistake, { type: "triangle" });
    for (const answer of good) markers.set(answer, { type: "circle" });
    markers.set(best, { type: "square" });
  }
  const verdict = given === best ? "problemRight" : good.includes(given!) ? "problemGood" : "problemWrong";
  return (
    <>
      <Board
        width={line.width}
        height={line.height}
        stones={stones}
        label={t("toMove", { colour: side })}
        markers={markers}
        onPoint={(point) => !stones[point] && onAnswer(point)}
        {...(last === undefined ? {} : { last: last & POINT_MASK })}
      />
      {given === undefined ? <p role="status"><strong>{t("toMove", { colour: side })}</strong></p> : (
        <>
          <p role="status"><strong>{t(verdict, { move: name(given) })}</strong></p>
          <p>
            {t("markRight", { move: name(best) })}
            {good.length > 0 && <> {t("markGood", { moves: good.map(name).join(", ") })}</>}{" "}
            {t("markMistake", { move: name(mistake), rank: weak, loss: number(problem.loss, 0) })}
          </p>
          <MoveButtons label={t("problemLine", { rank: strong })} line={line} points={line.moves.slice(ply).map((word) => word & POINT_MASK)} shown={shown} onPick={setShown}>
            <button type="button" disabled={!shown} onClick={() => setShown(0)}>{t("problemBack")}</button>
          </MoveButtons>
          <p class="muted">
            {t("problemChances", { strong, weak, share: percent(problem.strong, 0), other: percent(problem.weak, 0) })}{" "}
            <a href={address(`/game/${corpus}/${problem.row}`, { ply })}>{problem.game.black || "?"} – {problem.game.white || "?"}</a>
          </p>
        </>
      )}
    </>
  );
}
