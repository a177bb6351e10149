/** Texts of a page: key -> [English, Japanese, Chinese, Korean]. */
export type Texts = Record<string, readonly [string, string, string, string]>;
