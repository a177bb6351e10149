// Texts of the interface. Each file of src/texts has the texts of a page: key -> [English, Japanese, Chinese, Korean].
import { useState } from "preact/hooks";
import { common } from "./texts/common";
import { corpus } from "./texts/corpus";
import { explorer } from "./texts/explorer";
import { game } from "./texts/game";
import { games } from "./texts/games";
import { patterns } from "./texts/patterns";
import { planes } from "./texts/planes";
import { play } from "./texts/play";
import { problems } from "./texts/problems";
import { reasons } from "./texts/reasons";
import { reports } from "./texts/reports";
import { ui } from "./texts/ui";
import { upload } from "./texts/upload";

export const LANGUAGES = { en: "English", ja: "日本語", zh: "中文", ko: "한국어" } as const;
export type Language = keyof typeof LANGUAGES;

const TEXTS = { ...common, ...corpus, ...explorer, ...game, ...games, ...patterns, ...planes, ...play, ...problems, ...reports, ...ui, ...upload };
export type Key = keyof typeof TEXTS;

function preferred(): Language {
  const known = Object.keys(LANGUAGES) as Language[];
  const wanted = [localStorage.getItem("language") ?? "", ...navigator.languages];
  for (const each of wanted) {
    const language = known.find((code) => each.toLowerCase().startsWith(code));
    if (language) return language;
  }
  return "en";
}

let language = preferred();
document.documentElement.lang = language;

/** Return the present language and a function that changes it. */
export function useLanguage(): [Language, (language: Language) => void] {
  const [, rerender] = useState(0);
  return [
    language,
    (chosen) => {
      language = chosen;
      localStorage.setItem("language", chosen);
      document.documentElement.lang = chosen;
      rerender((n) => n + 1);
    },
  ];
}

/** Return a text of the interface; "{name}" in it is replaced by values.name. */
export function t(key: Key, values: Record<string, string | number> = {}): string {
  const text = TEXTS[key][Object.keys(LANGUAGES).indexOf(language)] as string;
  return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));
}

/** Return the reason for which a game was dropped in words. */
export function reasonName(reason: string): string {
  const texts = reasons[reason as keyof typeof reasons];
  return texts ? texts[Object.keys(LANGUAGES).indexOf(language)]! : reason.replaceAll("_", " ");
}

/** Return a number as it is written in the present language. */
export function number(value: number, digits = 0): string {
  return value.toLocaleString(language, { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** Return a number in at most five characters, such as 9,999 or 12K. */
export function shortNumber(value: number): string {
  return value < 10_000 ? number(value) : value.toLocaleString(language, { notation: "compact" });
}

/** Return a share as a percentage; a positive one that would be rounded to zero as "<0.1%". */
export function percent(share: number, digits = 1): string {
  const smallest = 10 ** -(digits + 2);
  const tiny = Math.abs(share) < smallest / 2;
  const shown = !tiny ? share : share > 0 ? smallest : 0;
  const format = { style: "percent", minimumFractionDigits: digits, maximumFractionDigits: digits } as const;
  return (tiny && share > 0 ? "<" : "") + shown.toLocaleString(language, format);
}

const ENDINGS = { R: "wonByResignation", T: "wonOnTime", F: "wonByForfeit", "": "won" } as const;

/** Return a result in SGF's form, such as B+3.5, in the present language; texts of another form as they are. */
export function resultName(text: string): string {
  const found = /^([BW])\+(?:(\d+(?:\.\d+)?)|(R|T|F)?[a-z]*)$/.exec(text);
  if (!found) return text === "0" || text === "Draw" ? t("draw") : text === "Void" || text === "?" ? t("noResult") : text;
  const english = language === "en" && found[0] !== `${found[1]}+`;
  const winner = english ? found[1]! : t(found[1] === "B" ? "black" : "white");
  return found[2] ? t("wonBy", { winner, margin: String(Number(found[2])) }) : t(ENDINGS[(found[3] ?? "") as keyof typeof ENDINGS], { winner });
}

const RANKS = { k: "rankKyu", d: "rankDan", p: "rankPro" } as const;

/** Return a rank such as 3d in the present language; other texts as they are. */
export function rankName(text: string): string {
  const found = /^(\d+) ?([kdp])(?:an|yu)?[?*]?$/i.exec(text.trim());
  return found ? t(RANKS[found[2]!.toLowerCase() as keyof typeof RANKS], { grade: found[1]! }) : text;
}

/** Return the rank of a rating, see `kifu.Rank.rating`. */
export function ratingName(rating: number): string {
  const whole = Math.round(rating);
  return rankName(whole > 40 ? `${whole - 40}p` : whole > 31 ? `${whole - 31}d` : `${32 - whole}k`);
}

/** Errors of the server by what their English text contains; others are quoted. */
const ERRORS: [pattern: RegExp, key: Key][] = [
  [/took longer than/, "errorSlow"],
  [/is busy|server stops/, "errorBusy"],
  [/has changed since/, "errorChanged"],
  [/^there is no game|^row must be/, "errorNoGame"],
  [/^there is no|^ply must be/, "errorNotFound"],
  [/a token is required/, "errorToken"],
  [/occurs about .* times/, "errorFrequent"],
  [/occupied point/, "errorOccupied"],
  [/a suicide/, "errorSuicide"],
  [/ko recapture/, "errorKo"],
  [/repeats an earlier position/, "errorSuperko"],
  [/still being opened/, "netsOpening"],
  [/must have at most [\d,]+ bytes/, "tooLarge"],
  [/board size/, "errorSize"],
  [/neither an archive nor a game record|not a readable game|the file is empty/, "errorNoRecord"],
  [/damaged|cut off|members overlap/, "errorDamaged"],
  [/does not support|no legal move|omits this position/, "errorUnsupported"],
  [/^line \d+: |pattern/, "errorPattern"],
  [/^(Parser|Binder|Conversion|Catalog|Invalid \w+) Error|^a filter must/, "errorCondition"],
];

/** Return an error of the server, one line in English, in the present language. */
export function errorText(message: string): string {
  const known = ERRORS.find(([pattern]) => pattern.test(message));
  return t(known?.[1] ?? "errorOther", { message });
}
