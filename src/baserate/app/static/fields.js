// The row of a class: its number field and, for rates, its slider. Both show the same value.
import { all, one } from "./page.js";
import { numberText, parseNumber } from "./numbers.js";

const SIDES = ["low", "high"];
const RARE = 10;  // percent; the sliders of rarer classes end at 20 %, so that single tenths of a percent can be chosen

export const textOf = (row, side = "low") => one(`.${side}`, row)?.value ?? "";
export const valueOf = (row, side = "low") => parseNumber(textOf(row, side));

export function setValue(row, side, value, decimals = 2) {
  one(`.${side}`, row).value = value === null ? "" : numberText(value, decimals);
  moveSlider(row, side);
}

export function moveSlider(row, side) {
  const slider = one(`.${side}-slider`, row);
  if (!slider) return;
  const value = valueOf(row, side);
  slider.value = value ?? row.dataset.mean ?? (side === "high" ? 100 : 0);
  slider.classList.toggle("not-entered", value === null);
  slider.setAttribute("aria-valuetext", value === null ? "not entered" : `${numberText(value)} percent`);
}

// Not while the sliders are moved.
export function fitSliders(row) {
  const isRare = Math.max(Number(row.dataset.mean ?? 100), ...SIDES.map((side) => valueOf(row, side) ?? 0)) <= RARE;
  for (const slider of all("input[type=range]", row)) {
    slider.max = isRare ? 20 : 100;
    slider.step = isRare ? 0.02 : 0.1;
  }
  for (const side of SIDES) moveSlider(row, side);
}

export function showMean(row, mean) {
  const place = one(".mean", row);
  if (mean === undefined || !place) return;
  row.dataset.mean = mean;
  place.textContent = `mean of the predictions: ${numberText(mean)} %`;
  fitSliders(row);
}

export function keepOrder(row, side) {
  const [low, high] = SIDES.map((name) => valueOf(row, name));
  if (low === null || high === null || low <= high) return;
  if (side === "low") setValue(row, "high", low);
  else setValue(row, "low", high);
}

export function newRow(template, name) {
  const row = one(`#${template}`).content.cloneNode(true).querySelector(".rate");
  row.dataset.class = name;
  one("bdi", row).textContent = name;
  for (const part of all("[aria-label]", row)) {
    part.setAttribute("aria-label", part.getAttribute("aria-label").replace(/ of (,|$)/, (_, end) => ` of ${name}${end}`));
  }
  return row;
}

export function entriesIn(place) {
  return all(".rate", place)
    .map((row) => ({ class: row.dataset.class, low: textOf(row), high: textOf(row, one(".high", row) ? "high" : "low") }))
    .filter((entry) => entry.low.trim() || entry.high.trim());
}
