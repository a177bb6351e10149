import type { Texts } from "./type";

/** Texts of the page of problems. */
export const problems = {
  problems: ["Problems", "問題", "题目", "문제"],
  problemOf: ["Problem {k} of {count}", "問題 {k} / {count}", "第 {k} 题，共 {count} 题", "문제 {k} / {count}"],
  problemsRight: ["{right} of {count} right", "{count} 問中 {right} 問正解", "{count} 题答对 {right} 题", "{count}문제 중 {right}문제 정답"],
  problemsSearched: ["{count} of 10 problems found in {games} games", "{games} 局から {count} / 10 問", "已在 {games} 局中找到 {count} / 10 题", "{games}국에서 {count} / 10문제"],
  problemsNone: ["The chosen games have no problems.", "選んだ棋譜に問題がありません。", "所选棋谱中没有题目。", "선택한 기보에 문제가 없습니다."],
  problemsPoints: ["The move played here lost at least two points. Find a better one.", "実戦の手が 2 目以上の損だった局面です。より良い手を見つけてください。", "实战着法在此至少损了两目，请找出更好的着法。", "실전의 수가 2집 이상 손해였던 국면입니다. 더 좋은 수를 찾으세요."],
  problemsOthers: ["Ten others", "別の 10 問", "另外十题", "다른 10문제"],
  problemRight: ["{move} is right.", "{move} は正解です。", "{move} 正确。", "{move} 정답입니다."],
  problemWrong: ["Right: {answer}.", "正解：{answer}。", "正解：{answer}。", "정답: {answer}."],
  problemLoss: ["Played: {mistake}, {loss} points worse than {answer}.", "実戦の {mistake} は {answer} より {loss} 目損です。", "实战 {mistake}，比 {answer} 损 {loss} 目。", "실전의 {mistake}: {answer}보다 {loss}집 손해입니다."],
  netLabel: ["Net", "ネットワーク", "神经网络", "신경망"],
} as const satisfies Texts;
