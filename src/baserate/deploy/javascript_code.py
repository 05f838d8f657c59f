"""A formula as a function in JavaScript that needs no packages, in browsers and in Node."""

from __future__ import annotations

from baserate.deploy.formula import LARGEST_EXCESS, TINY, Formula
from baserate.deploy.row_maps import Isotonic, PowerRoot, Projection, Reweighting, Sphere, Translation

_CHECK = """

// Compares the function with rows that baserate has adjusted.
function check() {
  for (const [row, wanted] of TESTS) {
    const found = adjust(row);
    const pairs = Array.isArray(wanted) ? wanted.map((value, j) => [found[j], value]) : [[found, wanted]];
    for (const [a, b] of pairs) {
      if (!(Math.abs(a - b) < 1e-12)) throw new Error(JSON.stringify({row, found, wanted}));
    }
  }
}

if (typeof module !== "undefined") {
  module.exports = {adjust, check, CLASSES};
  if (require.main === module) check();
}
"""


def function(formula: Formula, constants: dict[str, str], tests: str) -> str:
    """The source code of the function ``adjust(row)``.

    Parameters
    ----------
    formula : Formula
    constants : dict
        The numbers of the formula, by their names.
    tests : str
        A list of pairs: a row, and what the function returns for it.
    """
    what = _what(formula)
    body = [*_check_of_numbers(formula), *_reading(formula), *_formula(formula), *_ending(formula)]
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


def _what(formula: Formula) -> str:
    if formula.one_column:
        return "log odds" if formula.from_logits else "predicted probability"
    return "logits" if formula.from_logits else "probabilities"


def _check_of_numbers(formula: Formula) -> list[str]:
    """Lines that refuse rows of another length, and numbers that are not probabilities or logits, such as NaN."""
    if formula.one_column:
        high = "Infinity" if formula.from_logits else repr(1 + LARGEST_EXCESS)
        low = "-Infinity" if formula.from_logits else "0"
        return [
            f'if (typeof row !== "number" || !(row >= {low} && row <= {high})) {{',
            f"  throw new Error(`a row must be a {_what(formula)}, not ${{row}}`);",
            "}",
        ]
    valid = 'typeof value === "number" && value < Infinity' + (" && value >= 0" * (not formula.from_logits))
    return [
        f"if (row.length !== CLASSES.length || !row.every((value) => {valid})) {{",
        f"  throw new Error(`a row must have ${{CLASSES.length}} {_what(formula)}, not [${{row}}]`);",
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
    lines = ["let values = row;"]
    if formula.one_column and formula.from_logits:
        lines = ["let values = [Math.min(-row, 0), Math.min(row, 0)];"]
    elif formula.one_column:
        lines = ["let values = [1 - Math.min(row, 1), Math.min(row, 1)];"]
    lines += _check_of_classes(formula)
    if formula.from_logits and isinstance(formula.row_map, Reweighting) and not formula.smoothing:
        return [*lines, "let logs = KEPT.map((j) => values[j]);"]
    if formula.from_logits:
        lines += ["const highest = largest(values);", "values = values.map((value) => Math.exp(value - highest));"]
    lines += ["const rowSum = sum(values);", "let p = values.map((value) => value / rowSum);"]
    if formula.smoothing:
        scale = 1.0 + formula.n_classes * formula.smoothing
        lines.append(f"p = p.map((value) => (value + {formula.smoothing!r}) / {scale!r});")
    if isinstance(formula.row_map, Reweighting):
        return [*lines, "let logs = KEPT.map((j) => Math.log(p[j]));"]
    return lines


def _ending(formula: Formula) -> list[str]:
    lines = ["const adjusted = CLASSES.map(() => 0);", "KEPT.forEach((j, i) => { adjusted[j] = a[i]; });"]
    return [*lines, "return adjusted[1];" if formula.one_column else "return adjusted;"]


def _formula(formula: Formula) -> list[str]:
    """Lines that make ``a``, the adjusted probabilities of the kept classes."""
    row_map = formula.row_map
    match row_map:
        case Reweighting():
            return [
                *(_LEVELS.replace("VALUES", "logs").split("\n") if row_map.levels is not None else []),
                "const x = logs.map((log, i) => log + SHIFT[i]);",
                "const top = largest(x);",
                "const e = x.map((value) => Math.exp(value - top));",
                "const total = sum(e);",
                f"const a = e.map((value, i) => (x[i] > -Infinity ? Math.max(value / total, {TINY!r}) : 0));",
            ]
        case Translation():
            return ["const a = p.map((value, i) => value + OFFSET[i]);"]
        case Projection():
            return _PROJECTION.split("\n")
        case Sphere():
            return (_SPHERE if row_map.bounded else _UNBOUNDED_SPHERE).split("\n")
        case Isotonic():
            return _ISOTONIC.split("\n")
        case PowerRoot():
            return _power(row_map)
    raise AssertionError(row_map)  # to_code has refused others


_LEVELS = """\
const level = largest(VALUES.map((log, i) => (log > -Infinity ? LEVELS[i] : -1)));
VALUES = VALUES.map((log, i) => (LEVELS[i] === level ? log : -Infinity));"""

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
const theta = Math.sqrt((1 - sum(x.map((value) => (value - mean) ** 2))) / x.length);
const u = x.map((value) => value - mean + theta);
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


def _power(row_map: PowerRoot) -> list[str]:
    """Bisection on the largest entry. Near beta = 1, expm1 and log1p keep the digits that powers would lose."""
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
        lines += _LEVELS.replace("VALUES", "links").split("\n")
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
        "const a = found.map((value) => value / total);",
    ]
