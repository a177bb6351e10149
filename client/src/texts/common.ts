import type { Texts } from "./type";

/** Texts of several pages: key -> [English, Japanese, Chinese, Korean]. */
export const common = {
  games: ["Games", "棋譜", "棋谱", "기보"],
  explore: ["Explorer", "布石探索", "布局探索", "포석 탐색"],
  search: ["Patterns", "パターン検索", "棋形搜索", "패턴 검색"],
  play: ["Play", "対局", "对弈", "대국"],
  planes: ["Planes", "入力平面", "输入平面", "입력 평면"],
  corpus: ["Corpus", "棋譜データ", "棋谱数据", "기보 데이터"],
  reports: ["Reports", "レポート", "报告", "보고서"],
  language: ["Language", "言語", "语言", "언어"],
  theme: ["Dark mode", "ダークモード", "深色模式", "어두운 모드"],
  catalogue: ["Catalogue", "棋譜集", "棋谱库", "기보집"],
  loading: ["Loading", "読み込み中", "加载中", "불러오는 중"],
  black: ["Black", "黒", "黑", "흑"],
  white: ["White", "白", "白", "백"],
  pass: ["Pass", "パス", "停一手", "패스"],
  emptyPoint: ["empty", "空点", "空点", "빈 곳"],
  lastMove: ["last move", "直前の手", "上一手", "직전 수"],
  heatLegend: ["Probability in %", "確率（%）", "概率（%）", "확률 (%)"],
  skip: ["Skip to content", "本文へ", "跳到正文", "본문으로"],
  missing: ["There is no such page.", "ページがありません。", "没有这个页面。", "페이지가 없습니다."],
} as const satisfies Texts;
