import type { Texts } from "./type";

/** Texts of the games that the user opened. */
export const upload = {
  yourGames: ["Your games", "自分の棋譜", "我的棋谱", "내 기보"],
  uploadMore: ["Only the first {count} games are shown.", "最初の {count} 局だけを表示しています。", "只显示前 {count} 局。", "처음 {count}국만 표시합니다."],
  noteDropped: ["Not readable: {reason}.", "読み取れません：{reason}。", "无法读取：{reason}。", "읽을 수 없음: {reason}."],
  noteIllegal: ["The game ends before move {number}: {reason}.", "{number} 手目の前で終わります：{reason}。", "对局止于第 {number} 手之前：{reason}。", "{number}수째 앞에서 끝남: {reason}."],
  noteTruncated: ["The file is cut off.", "ファイルが途中で切れています。", "文件不完整。", "파일이 중간에 잘렸습니다."],
  noteEncoding: ["The file says that its text is {declared}; it was read as {used}.", "文字コードは {declared} とありますが、{used} として読み取りました。", "文件声明的编码为 {declared}，实际按 {used} 读取。", "파일에는 {declared}로 되어 있으나 {used}로 읽었습니다."],
  noteCharacters: ["Some characters could not be read.", "読み取れない文字があります。", "部分字符无法读取。", "읽을 수 없는 글자가 있습니다."],
  noteLong: ["Only a part of the {moves} moves is shown.", "全 {moves} 手の一部だけを表示しています。", "共 {moves} 手，只显示一部分。", "총 {moves}수 중 일부만 표시합니다."],
  reasonOffBoard: ["the point is outside the board", "盤の外の点", "落点在棋盘之外", "바둑판 밖의 점"],
  reasonOccupied: ["the point is occupied", "石のある点への着手", "该点已有棋子", "이미 돌이 있는 점"],
  reasonSuicide: ["suicide", "自殺手", "自杀手", "자살수"],
  reasonKo: ["the ko is retaken at once", "コウの即時取り返し", "立即回提劫", "패를 바로 되따냄"],
  reasonSuperko: ["an earlier position is repeated", "同型反復", "全局同形再现", "동형 반복"],
  reasonNoRecord: ["it contains no game", "棋譜がありません", "没有棋谱", "기보 없음"],
  reasonNotGo: ["it is another game than Go", "囲碁ではありません", "不是围棋", "바둑이 아님"],
  reasonSize: ["the board size is unreadable or over 25", "盤の大きさが不正です", "棋盘大小无效", "바둑판 크기가 잘못됨"],
  reasonLarge: ["it is too large", "大きすぎます", "过大", "너무 큼"],
  reasonDamaged: ["it is damaged", "破損しています", "已损坏", "손상됨"],
} as const satisfies Texts;
