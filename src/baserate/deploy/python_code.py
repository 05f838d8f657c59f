"""A formula as a function in Python that needs only the standard library."""

from __future__ import annotations

from baserate.deploy.formula import LARGEST_EXCESS, TINY, Formula
from baserate.deploy.row_maps import Isotonic, PowerRoot, Projection, Reweighting, Sphere, Translation

_CHECK = '''

def check():
    """Compare the function with rows that baserate has adjusted."""
    for row, wanted in TESTS:
        found = adjust(row)
        pairs = zip(found, wanted) if isinstance(wanted, list) else [(found, wanted)]
        assert all(abs(a - b) < 1e-12 for a, b in pairs), (row, found, wanted)


if __name__ == "__main__":
    check()
'''


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
    body = [*_reading(formula), *_formula(formula), *_ending(formula)]
    lines = [
        f'"""Class probabilities, adjusted by a fixed shift for {formula.loss}. Written by baserate."""',
        "",
        "import math",
        "",
        *(f"{name} = {value}" for name, value in constants.items()),
        "",
        "",
        "def adjust(row):",
        f'    """The adjusted probabilities of a row of {what}, in the order of CLASSES."""'
        if not formula.one_column
        else f'    """The adjusted probability of the second of CLASSES, from its {what}."""',
        *(f"    {line}" for line in body),
        "",
        "",
        f"TESTS = {tests}",
    ]
    return "\n".join(lines) + _CHECK


def _what(formula: Formula) -> str:
    if formula.one_column:
        return "log odds" if formula.from_logits else "predicted probability"
    return "logits" if formula.from_logits else "probabilities"


def _reading(formula: Formula) -> list[str]:
    """Lines that make ``p``, all probabilities, or ``logs`` of them."""
    lines = _check_of_numbers(formula)
    if formula.one_column:
        pair = "[min(-row, 0.0), min(row, 0.0)]" if formula.from_logits else "[1.0 - min(row, 1.0), min(row, 1.0)]"
        lines.append(f"row = {pair}")
    lines += _check_of_classes(formula)
    if formula.from_logits and isinstance(formula.row_map, Reweighting) and not formula.smoothing:
        return [*lines, "logs = [row[j] for j in KEPT]"]
    if formula.from_logits:
        lines += ["top = max(row)", "row = [math.exp(value - top) for value in row]"]
    lines += ["total = sum(row)", "p = [value / total for value in row]"]
    if formula.smoothing:
        lines.append(
            f"p = [(value + {formula.smoothing!r}) / {1.0 + formula.n_classes * formula.smoothing!r} for value in p]"
        )
    if isinstance(formula.row_map, Reweighting):
        return [*lines, "logs = [math.log(p[j]) if p[j] > 0 else -math.inf for j in KEPT]"]
    return lines


def _check_of_numbers(formula: Formula) -> list[str]:
    """Lines that refuse rows of another length, and numbers that are not probabilities or logits, such as NaN."""
    if formula.one_column:
        test = "math.isnan(row)" if formula.from_logits else f"not 0 <= row <= {1 + LARGEST_EXCESS!r}"
        return [f"if {test}:", f'    raise ValueError(f"a row must be a {_what(formula)}, not {{row}}")']
    valid = "value < math.inf" if formula.from_logits else "0 <= value < math.inf"
    return [
        f"if len(row) != len(CLASSES) or not all({valid} for value in row):",
        f'    raise ValueError(f"a row must have {{len(CLASSES)}} {_what(formula)}, not {{row}}")',
    ]


def _check_of_classes(formula: Formula) -> list[str]:
    """Lines that refuse rows without a class that can get probability."""
    least = "-math.inf" if formula.from_logits else "0"
    entries = f"row[j] > {least} for j in KEPT" if formula.needs_kept else f"value > {least} for value in row"
    return [f"if not any({entries}):", '    raise ValueError(f"no class of the row {row} can get probability")']


def _ending(formula: Formula) -> list[str]:
    lines = ["adjusted = [0.0] * len(CLASSES)", "for j, value in zip(KEPT, a):", "    adjusted[j] = value"]
    return [*lines, "return adjusted[1]" if formula.one_column else "return adjusted"]


def _formula(formula: Formula) -> list[str]:
    """Lines that make ``a``, the adjusted probabilities of the kept classes."""
    row_map = formula.row_map
    match row_map:
        case Reweighting():
            return [
                *(
                    _LEVELS.format(values="logs", possible="log > -math.inf").split("\n")
                    if row_map.levels is not None
                    else []
                ),
                "x = [log + by for log, by in zip(logs, SHIFT)]",
                "top = max(x)",
                "e = [math.exp(value - top) for value in x]",
                "total = sum(e)",
                f"a = [max(value / total, {TINY!r}) if log > -math.inf else 0.0 for value, log in zip(e, x)]",
            ]
        case Translation():
            return ["a = [value + by for value, by in zip(p, OFFSET)]"]
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
top = max(level for level, log in zip(LEVELS, {values}) if {possible})
{values} = [log if level == top else -math.inf for level, log in zip(LEVELS, {values})]"""

_PROJECTION = """\
z = [p[j] + by for j, by in zip(KEPT, OFFSET)]
order = sorted(range(len(z)), key=lambda i: -z[i] / SPREAD[i])
top = z[order[0]] / SPREAD[order[0]]
z = [value - top * width for value, width in zip(z, SPREAD)]
sum_z = width = 0.0
theta = math.inf
for i in order:
    sum_z, width = sum_z + z[i], width + SPREAD[i]
    theta = min(theta, (1.0 - sum_z) / width)
a = [max(value + theta * width, 0.0) for value, width in zip(z, SPREAD)]
total = sum(a)
a = [value / total for value in a]"""

_UNBOUNDED_SPHERE = """\
norm = math.sqrt(sum(value * value for value in p))
x = [p[j] / norm + by for j, by in zip(KEPT, SHIFT)]
mean = sum(x) / len(x)
theta = math.sqrt((1.0 - sum((value - mean) ** 2 for value in x)) / len(x))
u = [value - mean + theta for value in x]
a = [value / sum(u) for value in u]"""

_SPHERE = """\
norm = math.sqrt(sum(value * value for value in p))
x = [p[j] / norm + by for j, by in zip(KEPT, SHIFT)]
inside = [value for value in x if sum(max(other - value, 0.0) ** 2 for other in x) < 1.0]
mean = sum(inside) / len(inside)
theta = math.sqrt((1.0 - sum((value - mean) ** 2 for value in inside)) / len(inside))
u = [max(value - mean + theta, 0.0) for value in x]
total = sum(u)
a = [value / total for value in u]"""

_ISOTONIC = """\
blocks = []  # mean, weight, number of entries
for t, (by, weight) in enumerate(zip(OFFSET, WEIGHTS)):
    blocks.append([sum(value * row[t] for value, row in zip(p, MATRIX)) + by, weight, 1])
    while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
        mean, weight, size = blocks.pop()
        before, other, n = blocks.pop()
        blocks.append([(mean * weight + before * other) / (weight + other), weight + other, size + n])
edges = [0.0] + [min(max(mean, 0.0), 1.0) for mean, _, size in blocks for _ in range(size)] + [1.0]
a = [high - low for low, high in zip(edges, edges[1:])]"""


def _power(row_map: PowerRoot) -> list[str]:
    """Bisection on the largest entry. Near beta = 1, expm1 and log1p keep the digits that powers would lose."""
    beta, b = row_map.beta, row_map.beta - 1.0
    if abs(b) < 0.1:
        link = (
            f"{beta / b!r} * math.expm1({b!r} * math.log(q)) if q > 0 else {'-math.inf' if b < 0 else repr(-beta / b)}"
        )
        inverse = f"math.exp(math.log1p(y) / {b!r}) if y > -1 else {'math.inf' if b < 0 else '0.0'}"
    else:
        link = f"{beta / b!r} * q ** {b!r} if q > 0 else {'-math.inf' if b < 0 else '0.0'}"
        inverse = f"y ** {1.0 / b!r} if y > 0 else 0.0"
    lines = [f"link = lambda q: {link}", f"inverse = lambda y: {inverse}"]
    lines += ["links = [link(p[j]) for j in KEPT]"]
    if row_map.levels is not None:
        lines += _LEVELS.format(values="links", possible="log > -math.inf").split("\n")
    return [
        *lines,
        "x = [value + by for value, by in zip(links, SHIFT)]",
        "gap = [value - max(x) for value in x]",
        "low, high = 1.0 / len(x), 1.0",
        "for _ in range(60):",
        "    middle = (low + high) / 2.0",
        f"    total = sum(inverse({b / beta!r} * (link(middle) + d)) if d > -math.inf else 0.0 for d in gap)",
        "    low, high = (middle, high) if total < 1.0 else (low, middle)",
        f"a = [inverse({b / beta!r} * (link(high) + d)) if d > -math.inf else 0.0 for d in gap]",
        "total = sum(a)",
        "a = [value / total for value in a]",
    ]
