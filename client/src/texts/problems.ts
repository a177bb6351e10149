import type { Texts } from "./type";

/** Texts of the page of problems. */
export const problems = {
  problems: ["Problems", "問題", "题目", "문제"],
  problemOf: ["Problem {k} of {count}", "問題 {k} / {count}", "第 {k} 题，共 {count} 题", "문제 {k} / {count}"],
  problemsRight: ["{right} of {count} right", "{count} 問中 {right} 問正解", "{count} 题答对 {right} 题", "{count}문제 중 {right}문제 정답"],
  problemsMissing: [
    "This catalogue has no problems yet. They are found by kifu problems CATALOGUE --net KATAGO.bin.gz",
    "この棋譜集にはまだ問題がありません。kifu problems CATALOGUE --net KATAGO.bin.gz で作成できます。",
    "此棋谱库还没有题目。可用 kifu problems CATALOGUE --net KATAGO.bin.gz 生成。",
    "이 기보집에는 아직 문제가 없습니다. kifu problems CATALOGUE --net KATAGO.bin.gz 로 만들 수 있습니다.",
  ],
  problemsTask: [
    "Most {strong} players find a right move here, most {weak} players do not. The easiest problems come first.",
    "{strong}の多くが正解し、{weak}の多くが間違える局面です。易しい順に並んでいます。",
    "多数{strong}棋手能找到正解、多数{weak}棋手会下错的局面，由易到难排列。",
    "{strong}은 대개 정답을 찾고 {weak}은 대개 놓치는 국면입니다. 쉬운 문제부터 나옵니다.",
  ],
  problemsFor: ["{strong} / {weak}: {count}", "{strong}／{weak}：{count}", "{strong}／{weak}：{count}", "{strong} / {weak}: {count}"],
  problemRight: ["{move} is right.", "{move} は正解です。", "{move} 正确。", "{move} 정답입니다."],
  problemGood: ["{move} is also good.", "{move} も良い手です。", "{move} 也不错。", "{move}도 좋은 수입니다."],
  problemWrong: ["{move} is not among the right moves.", "{move} は正解に含まれません。", "{move} 不在正解之列。", "{move}: 정답이 아닙니다."],
  markRight: ["□ {move}: right.", "□ {move}：正解。", "□ {move}：正解。", "□ {move}: 정답."],
  markGood: ["○ {moves}: also good.", "○ {moves}：これも良い手。", "○ {moves}：也不错。", "○ {moves}: 역시 좋은 수."],
  markMistake: ["△ {move}: most likely at {rank}, {loss} points lost.", "△ {move}：{rank}に最も多い手、{loss} 目損。", "△ {move}：{rank}最可能的着法，损 {loss} 目。", "△ {move}: {rank}이 가장 많이 두는 수, {loss}집 손해."],
  problemLine: ["Then at {rank}:", "{rank}の続き：", "{rank}的后续：", "{rank}의 이후 진행:"],
  problemBack: ["Back to the problem", "問題に戻る", "回到题目", "문제로 돌아가기"],
  problemChances: [
    "Chance of a right move: {strong} {share}, {weak} {other}.", "正解の確率：{strong} {share}、{weak} {other}。",
    "下出正解的概率：{strong} {share}，{weak} {other}。", "정답을 둘 확률: {strong} {share}, {weak} {other}.",
  ],
  netLabel: ["Net", "ネットワーク", "神经网络", "신경망"],
} as const satisfies Texts;
