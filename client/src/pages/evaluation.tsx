// The report of kifu evaluate.
import { number, percent, t, type Key } from "../i18n";
import { Disclosure } from "../ui";
import { Breakdown, Cell, Differences, NetTable, Region, Remarks, type Interval, type Score, type ScoredNet } from "./scores";

interface Net extends ScoredNet {
  description: string;
  score: Score;
  calibration: { error: Interval; bins: { start: number; stop: number; positions: number; confidence: number; accuracy: Interval }[] };
  entropy: Interval;
  value: { squared: Interval | null } | null;
}

/** Catalogue and row of a game; null if it is in no catalogue. */
export type GameRow = [number, number] | null;

interface Example {
  kind: string;
  players: [string, string];
  ranks: [string, string];
  date: string;
  location: string;
  number: number;
  to_play: "black" | "white";
  played: string;
  answers: { net: string; probability: number; choice: number; best: { move: string; probability: number }[] }[];
  game: GameRow;
}

export interface Evaluation {
  board: string;
  sources: string[];
  games: number;
  positions: number;
  remarks: string[];
  nets: Net[];
  examples: Example[];
}

/** Show an evaluation of nets. */
export function ShownEvaluation({ values }: { values: Evaluation }) {
  const { nets } = values;
  return (
    <>
      <p>
        {t("positionsOf", {
          positions: number(values.positions), games: number(values.games), board: values.board.replace("x", " × "),
        })}
        <br />
        <span class="muted anywhere">{t("sources", { sources: values.sources.join(", ") })}</span>
      </p>
      <Remarks remarks={values.remarks} />
      <section class="panel">
        <h2>{t("nets")}</h2>
        <NetTable
          label={t("nets")}
          nets={nets}
          note={(net) => net.description}
          value={(net, measure) => net.score[measure]}
          more={[
            ["calibrationError", (net) => net.calibration.error],
            ["entropy", (net) => net.entropy],
            ["valueError", (net) => net.value?.squared],
          ]}
        />
        <p class="muted">{t("intervals")}</p>
        <Differences nets={nets} />
      </section>
      <Calibrations nets={nets} />
      <Breakdown nets={nets} />
      <Examples examples={values.examples} />
    </>
  );
}

/** The accuracy of each net by its confidence. */
function Calibrations({ nets }: { nets: Net[] }) {
  return (
    <section class="panel">
      <h2>{t("calibrationTitle")}</h2>
      <div class="tiles">
        {nets.map((net) => (
          <figure key={net.name} class="calibration">
            <figcaption>{net.name}</figcaption>
            <svg viewBox="0 0 330 320" role="img" aria-label={`${net.name}. ${t("calibrationLabel")}`}>
              <g transform="translate(46 12)">
                <path class="frame" d="M0 0V270H270" />
                <path class="diagonal" d="M0 270L270 0" />
                {[0, 0.5, 1].map((share) => (
                  <g key={share}>
                    <text x={270 * share} y={286} text-anchor="middle">{percent(share, 0)}</text>
                    <text x={-5} y={274 - 270 * share} text-anchor="end">{percent(share, 0)}</text>
                  </g>
                ))}
                <text x={135} y={304} text-anchor="middle">{t("confidence")}</text>
                {net.calibration.bins.map((bin) => (
                  <g key={bin.start}>
                    <line x1={270 * bin.confidence} x2={270 * bin.confidence} y1={270 - 270 * bin.accuracy[1]} y2={270 - 270 * bin.accuracy[2]} />
                    <circle cx={270 * bin.confidence} cy={270 - 270 * bin.accuracy[0]} r={4} />
                  </g>
                ))}
              </g>
            </svg>
            <Disclosure title={t("figures")}>
              <Region label={`${net.name}: ${t("figures")}`}>
                <table>
                  <thead>
                    <tr>
                      <th scope="col" class="number">{t("confidence")}</th>
                      <th scope="col" class="number">{t("accuracy")}</th>
                      <th scope="col" class="number">{t("positions")}</th>
                    </tr>
                  </thead>
                  <tbody>
                    {net.calibration.bins.map((bin) => (
                      <tr key={bin.start}>
                        <td class="number">{percent(bin.confidence)}</td>
                        <Cell value={bin.accuracy} share />
                        <td class="number">{number(bin.positions)}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </Region>
            </Disclosure>
          </figure>
        ))}
      </div>
    </section>
  );
}

function Examples({ examples }: { examples: Example[] }) {
  if (examples.length === 0) return null;
  const kinds: Record<string, Key> = { missed: "missed", undecided: "undecided", correct: "correct" };
  return (
    <section>
      <h2>{t("examplesTitle")}</h2>
      {[...new Set(examples.map((example) => example.kind))].map((kind) => (
        <section key={kind}>
          <h3>{kinds[kind] ? t(kinds[kind]) : kind}</h3>
          <ul class="tiles plain-list">
            {examples.filter((example) => example.kind === kind).map((example) => (
              <li key={`${example.location} ${example.number}`} class="panel"><ShownExample example={example} /></li>
            ))}
          </ul>
        </section>
      ))}
    </section>
  );
}

function ShownExample({ example }: { example: Example }) {
  const players = `${example.players[0] || "?"} ${example.ranks[0]} – ${example.players[1] || "?"} ${example.ranks[1]}`;
  const { game } = example;
  return (
    <>
      <p class="anywhere">
        {game ? <a href={`/game/${game[0]}/${game[1]}?ply=${example.number - 1}`}>{players}</a> : players}
        <br />
        <small class="muted">{example.date} {game ? "" : `${example.location}. ${t("notServed")}`}</small>
      </p>
      <p>
        {t("moveNumber", { number: example.number, colour: t(example.to_play) })}
        <br />
        <strong>{t("playedMove", { move: example.played })}</strong>
      </p>
      {example.answers.map((answer) => (
        <p key={answer.net}>
          {t("playedShare", { name: answer.net, share: percent(answer.probability), place: answer.choice })}
          <br />
          <span class="muted">
            {t("bestMoves")}: {answer.best.map(({ move, probability }) => `${move} ${percent(probability)}`).join(", ")}
          </span>
        </p>
      ))}
    </>
  );
}
