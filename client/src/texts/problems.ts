import type { Texts } from "./type";

/** Texts of the page of problems. */
export const problems = {
  problems: ["Problems", "問題", "题目", "문제"],
  problemOf: ["Problem {k} of {count}", "問題 {k} / {count}", "第 {k} 题，共 {count} 题", "문제 {k} / {count}"],
  problemsRight: ["{right} of {count} right", "{count} 問中 {right} 問正解", "{count} 题答对 {right} 题", "{count}문제 중 {right}문제 정답"],
  problemsSearched: ["{count} of 10 problems found in {games} games", "{games} 局から {count} / 10 問", "已在 {games} 局中找到 {count} / 10 题", "{games}국에서 {count} / 10문제"],
  problemsNone: ["The chosen games have no problems.", "選んだ棋譜に問題がありません。", "所选棋谱中没有题目。", "선택한 기보에 문제가 없습니다."],
  problemsNoNet: ["Problems require a net that takes ranks or gives points.", "段級位か目数を扱うネットワークが必要です。", "需要支持段位或目差的神经网络。", "기력이나 집 차이를 다루는 신경망이 필요합니다."],
  problemsRanks: ["Strong players play one move here, weaker ones another. Find the strong move.", "強い人と弱い人で着手が分かれる局面です。強い人の手を当ててください。", "强手与弱手在此下法不同，请找出强手的着法。", "강한 사람과 약한 사람의 수가 갈리는 국면입니다. 강한 사람의 수를 찾으세요."],
  problemsPoints: ["One move is at least five points better than the others. Find it.", "5 目以上勝る一手を当ててください。", "有一手比其他着法至少好五目，请找出来。", "다른 수보다 5집 이상 좋은 수를 찾으세요."],
  problemsStrong: ["Strong", "強い人", "强手", "강한 사람"],
  problemsWeak: ["Weak", "弱い人", "弱手", "약한 사람"],
  problemsOthers: ["Ten others", "別の 10 問", "另外十题", "다른 10문제"],
  problemRight: ["{move} is right.", "{move} は正解です。", "{move} 正确。", "{move} 정답입니다."],
  problemWrong: ["{move} is not best; {answer} is.", "{move} は最善ではありません。正解は {answer}。", "{move} 不是最佳，应下 {answer}。", "{move}보다 {answer}가 좋습니다."],
  problemChances: ["{answer}: chance {one} for {strong}, {two} for {weak}, who prefer {mistake}.", "{answer}：{strong} なら {one}、{weak} なら {two}（{mistake} が多い）。", "{answer}：{strong} {one}，{weak} {two}（多下 {mistake}）。", "{answer}: {strong} {one}, {weak} {two} ({mistake} 선호)."],
  problemLoss: ["{mistake} is {loss} points worse than {answer}.", "{mistake} は {answer} より {loss} 目損です。", "{mistake} 比 {answer} 损 {loss} 目。", "{mistake}는 {answer}보다 {loss}집 손해입니다."],
  netLabel: ["Net", "ネットワーク", "神经网络", "신경망"],
} as const satisfies Texts;
