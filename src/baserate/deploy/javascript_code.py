"""A formula as a function in JavaScript that needs no packages, in browsers and in Node."""

from __future__ import annotations

from baserate.deploy.formula import TINY, Formula
from baserate.deploy.language import Language, allowed_numbers, input_name
from baserate.deploy.row_maps import PowerRoot, Reweighting
from baserate.inputs.vectors import LARGEST_EXCESS

_CHECK = """

// Compares the function with rows that baserate has adjusted.
function check() {
  for (const [row, wanted] of TESTS) {
    const found = adjust(row);
    const pairs = Array.isArray(wanted) ? wanted.map((value, j) => [found[j], value]) : [[found, wanted]];
    for (const [a, b] of pairs) {
      if (!(Math.abs(a - b) <= 1e-10 * Math.max(1, Math.abs(b)))) throw new Error(JSON.stringify({row, found, wanted}));
    }
  }
}

if (typeof module !== "undefined") {
  module.exports = {adjust, check, CLASSES};
  if (require.main === module) check();
}
"""


def _check_of_numbers(formula: Formula) -> list[str]:
    """Lines that refuse rows of another length, and numbers that are not probabilities or logits, such as NaN."""
    name = input_name(formula)
    if formula.one_column:
        high = "Infinity" if formula.from_logits else repr(1 + LARGEST_EXCESS)
        low = "-Infinity" if formula.from_logits else "0"
        return [
            f'if (typeof row !== "number" || !(row >= {low} && row <= {high})) {{',
            f"  throw new Error(`a row must be {allowed_numbers(formula)}, not ${{row}}`);",
            "}",
        ]
    valid = 'typeof value === "number" && value < Infinity' + (" && value >= 0" * (not formula.from_logits))
    return [
        "row = Array.from(row ?? []);  // also of typed arrays, and with the holes of an array",
        "if (row.length !== CLASSES.length) {",
        f"  throw new Error(`a row must have ${{CLASSES.length}} {name}, not ${{row.length}}`);",
        "}",
        f"if (!row.every((value) => {valid})) {{",
        f"  throw new Error(`a row must contain {allowed_numbers(formula)}, not [${{row}}]`);",
        "}",
    ]


def _check_of_classes(formula: Formula) -> list[str]:
    """Lines that refuse rows without a class that can get probability."""
    least = "-Infinity" if formula.from_logits else "0"
    some = (
        f"KEPT.some((j) => values[j] > {least})" if formula.needs_kept else f"values.some((value) => value > {least})"
    )
    return [f"if (!{some}) throw new Error(`no class of the row [${{row}}] can get probability`);"]


def _reading(formula: Formula) -> list[str]:
    """Lines that make ``p``, all probabilities, or ``logs`` of them."""
    values = "row"
    if formula.one_column and formula.from_logits:
        values = "[Math.min(-row, 0), Math.min(row, 0)]"
    elif formula.one_column:
        values = "[1 - Math.min(row, 1), Math.min(row, 1)]"
    lines = [f"const values = {values};", *_check_of_classes(formula)]
    if formula.shifts_logits:
        return [*lines, "let logs = KEPT.map((j) => values[j]);"]
    powers = "values"
    if formula.from_logits:
        lines += [
            "const highest = largest(values);",
            "const powers = values.map((value) => Math.exp(value - highest));",
        ]
        powers = "powers"
    lines += [f"const rowSum = sum({powers});"]
    if not formula.from_logits and not formula.one_column:
        lines += ["if (rowSum === Infinity) throw new Error(`the sum of the row [${row}] is too large`);"]
    lines += [f"let p = {powers}.map((value) => value / rowSum);"]
    if formula.lifts_probabilities:
        lines.append(f"p = p.map((value, j) => (values[j] > -Infinity ? Math.max(value, {TINY!r}) : 0));")
    if formula.smoothing:
        scale = 1.0 + formula.n_classes * formula.smoothing
        lines.append(f"p = p.map((value) => (value + {formula.smoothing!r}) / {scale!r});")
    if isinstance(formula.row_map, Reweighting):
        return [*lines, "let logs = KEPT.map((j) => Math.log(p[j]));"]
    return lines


def _ending(formula: Formula) -> list[str]:
    lines = ["const adjusted = CLASSES.map(() => 0);", "KEPT.forEach((j, i) => { adjusted[j] = a[i]; });"]
    return [*lines, "return adjusted[1];" if formula.one_column else "return adjusted;"]


def _highest_level(values: str) -> list[str]:
    """Lines that leave out classes below the highest level that a row has."""
    return [
        f"const level = largest({values}.map((log, i) => (log > -Infinity ? LEVELS[i] : -1)));",
        f"{values} = {values}.map((log, i) => (LEVELS[i] === level ? log : -Infinity));",
    ]


_PROJECTION = """\
const moved = KEPT.map((j, i) => p[j] + OFFSET[i]);
const order = moved.map((_, i) => i).sort((i, j) => moved[j] / SPREAD[j] - moved[i] / SPREAD[i]);
const top = moved[order[0]] / SPREAD[order[0]];
const z = moved.map((value, i) => value - top * SPREAD[i]);
let sumZ = 0, width = 0, theta = Infinity;
for (const i of order) {
  sumZ += z[i];
  width += SPREAD[i];
  theta = Math.min(theta, (1 - sumZ) / width);
}
const clipped = z.map((value, i) => Math.max(value + theta * SPREAD[i], 0));
const total = sum(clipped);
const a = clipped.map((value) => value / total);"""

_UNBOUNDED_SPHERE = """\
const norm = Math.sqrt(sum(p.map((value) => value * value)));
const x = KEPT.map((j, i) => p[j] / norm + SHIFT[i]);
const mean = sum(x) / x.length;
const rest = 1 - sum(x.map((value) => (value - mean) ** 2));
if (!(rest > 0)) throw new Error(`the row [${row}] has no unbounded adjustment by this shift`);
const u = x.map((value) => value - mean + Math.sqrt(rest / x.length));
const total = sum(u);
const a = u.map((value) => value / total);"""

_SPHERE = """\
const norm = Math.sqrt(sum(p.map((value) => value * value)));
const x = KEPT.map((j, i) => p[j] / norm + SHIFT[i]);
const inside = x.filter((value) => sum(x.map((other) => Math.max(other - value, 0) ** 2)) < 1);
const mean = sum(inside) / inside.length;
const theta = Math.sqrt((1 - sum(inside.map((value) => (value - mean) ** 2))) / inside.length);
const u = x.map((value) => Math.max(value - mean + theta, 0));
const total = sum(u);
const a = u.map((value) => value / total);"""

_ISOTONIC = """\
const blocks = [];  // mean, weight, number of entries
OFFSET.forEach((by, t) => {
  blocks.push([sum(p.map((value, j) => value * MATRIX[j][t])) + by, WEIGHTS[t], 1]);
  while (blocks.length > 1 && blocks[blocks.length - 2][0] >= blocks[blocks.length - 1][0]) {
    const [mean, weight, size] = blocks.pop();
    const [before, other, n] = blocks.pop();
    blocks.push([(mean * weight + before * other) / (weight + other), weight + other, size + n]);
  }
});
const inner = blocks.flatMap(([mean, , size]) => Array(size).fill(Math.min(Math.max(mean, 0), 1)));
const edges = [0, ...inner, 1];
const a = edges.slice(1).map((high, i) => high - edges[i]);"""


class JavaScript(Language):
    """JavaScript."""

    translation = "const a = p.map((value, i) => value + OFFSET[i]);"
    projection = _PROJECTION
    sphere = _SPHERE
    unbounded_sphere = _UNBOUNDED_SPHERE
    isotonic = _ISOTONIC

    def function(self, formula: Formula, constants: dict[str, str], tests: str) -> str:
        what = input_name(formula)
        body = [*_check_of_numbers(formula), *_reading(formula), *self.adjusted(formula), *_ending(formula)]
        lines = [
            f"// Class probabilities, adjusted by a fixed shift for {formula.loss}. Written by baserate.",
            '"use strict";',
            "",
            *(f"const {name} = {value};" for name, value in constants.items()),
            "const sum = (values) => values.reduce((a, b) => a + b, 0);",
            "const largest = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);",
            "",
            f"// Returns the adjusted probabilities of a row of {what}, in the order of CLASSES."
            if not formula.one_column
            else f"// Returns the adjusted probability of the second of CLASSES, from its {what}.",
            "function adjust(row) {",
            *(f"  {line}" for line in body),
            "}",
            "",
            f"const TESTS = {tests};",
        ]
        return "\n".join(lines) + _CHECK

    def reweighting(self, row_map: Reweighting) -> list[str]:
        return [
            *(_highest_level("logs") if row_map.levels is not None else []),
            "const x = logs.map((log, i) => log + SHIFT[i]);",
            "const top = largest(x);",
            "const e = x.map((value) => Math.exp(value - top));",
            "const total = sum(e);",
            f"const a = e.map((value, i) => (x[i] > -Infinity ? Math.max(value / total, {TINY!r}) : 0));",
        ]

    def power_root(self, row_map: PowerRoot) -> list[str]:
        beta, b = row_map.beta, row_map.beta - 1.0
        if abs(b) < 0.1:
            at_zero = "-Infinity" if b < 0 else repr(-beta / b)
            link = f"(q > 0 ? {beta / b!r} * Math.expm1({b!r} * Math.log(q)) : {at_zero})"
            inverse = f"(y > -1 ? Math.exp(Math.log1p(y) / {b!r}) : {'Infinity' if b < 0 else '0'})"
        else:
            link = f"(q > 0 ? {beta / b!r} * q ** {b!r} : {'-Infinity' if b < 0 else '0'})"
            inverse = f"(y > 0 ? y ** {1.0 / b!r} : 0)"
        lines = [f"const link = (q) => {link};", f"const inverse = (y) => {inverse};"]
        lines += ["let links = KEPT.map((j) => link(p[j]));"]
        if row_map.levels is not None:
            lines += _highest_level("links")
        return [
            *lines,
            "const x = links.map((value, i) => value + SHIFT[i]);",
            "const top = largest(x);",
            "const gap = x.map((value) => value - top);",
            f"const entries = (s) => gap.map((d) => (d > -Infinity ? inverse({b / beta!r} * (link(s) + d)) : 0));",
            "let low = 1 / x.length, high = 1;",
            "for (let i = 0; i < 60; i += 1) {",
            "  const middle = (low + high) / 2;",
            "  if (sum(entries(middle)) < 1) low = middle;",
            "  else high = middle;",
            "}",
            "const found = entries(high);",
            "const total = sum(found);",
            f"const a = found.map((value, i) => (gap[i] > -Infinity ? Math.max(value / total, {TINY!r}) : 0));"
            if beta <= 1
            else "const a = found.map((value) => value / total);",
        ]
