import type { Texts } from "./type";

/** Texts of the page of play. */
export const play = {
  playNet: ["Opponent", "対戦相手", "对手", "상대"],
  playColour: ["Your colour", "あなたの色", "你的颜色", "내 색"],
  playSize: ["Board", "碁盤", "棋盘", "바둑판"],
  playTemperature: ["Temperature (0: always its best move)", "温度（0：常に最善手）", "温度（0：总是下最佳着）", "온도 (0: 항상 최선의 수)"],
  playRank: ["Rank of the opponent", "相手の段級位", "对手的段位", "상대의 기력"],
  playKomi: ["Komi", "コミ", "贴目", "덤"],
  playHandicap: ["Handicap", "置石", "让子", "접바둑"],
  startGame: ["Start the game", "対局開始", "开始对局", "대국 시작"],
  newGame: ["New game", "新しい対局", "新对局", "새 대국"],
  undoMove: ["Undo", "待った", "悔棋", "무르기"],
  resignGame: ["Resign", "投了", "认输", "기권"],
  saveGame: ["Save as SGF", "SGF で保存", "保存为 SGF", "SGF로 저장"],
  yourTurn: ["Your turn", "あなたの番です", "轮到你", "당신의 차례입니다"],
  thinking: ["{name} is thinking", "{name} が考えています", "{name} 正在思考", "{name} 생각 중"],
  gameOver: ["The game is over: {result}", "終局：{result}", "对局结束：{result}", "대국 종료: {result}"],
  areaScore: ["Area: Black {black}, White {white} (with komi). All stones count as alive.", "地と石の合計：黒 {black}、白 {white}（コミ込み）。石はすべて活きとして数えます。", "数子：黑 {black}，白 {white}（含贴目）。所有棋子按活棋计算。", "집과 돌의 합: 흑 {black}, 백 {white} (덤 포함). 모든 돌은 살아 있는 것으로 셉니다."],
  you: ["You", "あなた", "你", "당신"],
  playBoard: ["Board, move {ply}", "碁盤、{ply} 手目", "棋盘，第 {ply} 手", "바둑판, {ply}수째"],
  passed: ["{colour} passed", "{colour}がパスしました", "{colour}方停一手", "{colour} 패스"],
} as const satisfies Texts;
