import type { Texts } from "./type";

/** Texts of the page of planes. */
export const planes = {
  planeSet: ["Plane set", "入力平面セット", "平面集", "평면 집합"],
  planesIntro: ["Each small board is one plane: what a net with this plane set gets as input for the position. Own means the player to move ({colour}).", "小さな盤の一つひとつが入力平面です。own は手番側（{colour}）を指します。", "每个小棋盘是一个输入平面，即使用此平面集的网络得到的输入。own 指轮到的一方（{colour}）。", "작은 바둑판 하나하나가 입력 평면입니다. own은 둘 차례인 쪽({colour})입니다."],
  planesPosition: ["Position", "局面", "局面", "국면"],
  planesValues: ["Values: {values}", "値：{values}", "取值：{values}", "값: {values}"],
  planesLegend: ["0 is empty; 1 is the full shade; values between have shades between, negative ones have a red edge.", "0 は空白、1 は最も濃く、中間の値は中間の濃さ、負の値は赤枠です。", "0 为空白，1 最深，中间值为中间深浅，负值为红框。", "0은 빈칸, 1은 가장 진하고, 중간 값은 중간 농도, 음수는 빨간 테두리입니다."],
  planesComposition: ["Composition:", "構成：", "组成：", "구성:"],
  planesNumbers: ["Numbers beside the planes", "平面以外の数値", "平面以外的数值", "평면 이외의 수"],
  planesMove: ["Move {ply}", "{ply} 手目", "第 {ply} 手", "{ply}수째"],
  planesGame: ["Back to the game", "棋譜へ戻る", "返回棋谱", "기보로"],
} as const satisfies Texts;
