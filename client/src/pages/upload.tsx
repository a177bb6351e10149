// The games of files that the user opened.
import { useRoute } from "../router";
import { t, type Key } from "../i18n";
import type { Upload, UploadedGame } from "../uploads";

/** The reasons for which a game or a move could not be read, with a text of their own. */
const REASONS: Record<string, Key> = {
  off_board: "reasonOffBoard", occupied: "reasonOccupied", suicide: "reasonSuicide", ko: "reasonKo", superko: "reasonSuperko",
  no_record: "reasonNoRecord", not_go: "reasonNotGo", bad_size: "reasonSize", too_large: "reasonLarge", unreadable: "reasonDamaged",
};

function noteText([kind, ...values]: UploadedGame["notes"][number]): string {
  const reason = REASONS[String(values[0])];
  const named = reason ? t(reason) : String(values[0]).replaceAll("_", " ");
  switch (kind) {
    case "dropped": return t("noteDropped", { reason: named });
    case "illegal": return t("noteIllegal", { reason: named, number: values[1]! });
    case "truncated": return t("noteTruncated");
    case "encoding": return t("noteEncoding", { declared: values[0]!, used: values[1]! });
    case "long": return t("noteLong", { moves: values[0]! });
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
                  ? <a href={`/game/upload/${key}/${k}`}>{game.info.black || "?"} <small class="muted">{game.info.black_rank}</small></a>
                  : game.name}
              </td>
              <td class="white">{game.info && <>{game.info.white || "?"} <small class="muted">{game.info.white_rank}</small></>}</td>
              <td class="number">{game.info?.date}</td>
              <td class="event">
                {[game.info?.event, files.size > 1 ? game.file : "", game.name.startsWith("the file") ? "" : game.name].filter(Boolean).join(" · ")}
                {game.notes.length > 0 && <small class="error"> {game.notes.map(noteText).join(" ")}</small>}
              </td>
              <td>{game.info?.result}</td>
              <td class="number">{game.line?.moves.length}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}
