// Numbers as people type and read them. The server reads them in the same way.
const SPACES_AND_PERCENT = /[\s'\u2019%\u066A]/gu;
const MOST_DECIMALS = 6;

// Digits of a script are ten characters in a row, so that a digit is the number of those before it.
function latinDigit(character) {
  const code = character.codePointAt(0);
  let before = 0;
  while (/\p{Nd}/u.test(String.fromCodePoint(code - before - 1))) before += 1;
  return String(before % 10);
}

// A decimal comma and a decimal point are both accepted, also with a percent sign. Null for other texts.
export function parseNumber(text) {
  let plain = text.replace(SPACES_AND_PERCENT, "").replace(/\p{Nd}/gu, latinDigit);
  plain = plain.replaceAll("\u066B", ".").replaceAll("\u066C", "");
  const marks = plain.match(/[.,]/g) ?? [];
  if (new Set(marks).size === 2) plain = plain.replaceAll(marks[0], "");  // the last one is the decimal mark
  plain = plain.replace(",", ".");
  return plain === "" || Number.isNaN(Number(plain)) ? null : Number(plain);
}

// Latin digits in all languages, as in the rest of the page, with the decimal mark of the language.
export const numberText = (value, decimals = 2) =>
  value.toLocaleString(undefined, { maximumFractionDigits: decimals, useGrouping: false, numberingSystem: "latn" });

// A decimal text of the server, such as 33.3333, with all its digits.
export const exactText = (text) => text.replace(".", numberText(1.5)[1]);

// How many decimals numbers need that are computed from these texts.
export function decimalsOf(texts) {
  const longest = Math.max(0, ...texts.map((text) => (text.split(/[.,\u066B]/)[1] ?? "").replace(/[\s%]/g, "").length));
  return Math.min(Math.max(longest, 2), MOST_DECIMALS);
}
