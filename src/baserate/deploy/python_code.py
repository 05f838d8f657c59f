"""A formula as a function in Python that needs only the standard library."""

from __future__ import annotations

from baserate.deploy.formula import TINY, Formula
from baserate.deploy.language import Language, allowed_numbers, input_name
from baserate.deploy.row_maps import PowerRoot, Reweighting
from baserate.inputs.vectors import LARGEST_EXCESS

_CHECK = '''

def check():
    """Compare the function with rows that baserate has adjusted."""
    for row, wanted in TESTS:
        found = adjust(row)
        pairs = zip(found, wanted) if isinstance(wanted, list) else [(found, wanted)]
        if not all(abs(a - b) <= 1e-10 * max(1.0, abs(b)) for a, b in pairs):
            raise AssertionError((row, found, wanted))


if __name__ == "__main__":
    check()
'''


def _reading(formula: Formula) -> list[str]:
    """Lines that make ``p``, all probabilities, or ``logs`` of them."""
    lines = _check_of_numbers(formula)
    if formula.one_column:
        pair = "[min(-row, 0.0), min(row, 0.0)]" if formula.from_logits else "[1.0 - min(row, 1.0), min(row, 1.0)]"
        lines.append(f"row = {pair}")
    lines += _check_of_classes(formula)
    if formula.shifts_logits:
        return [*lines, "logs = [row[j] for j in KEPT]"]
    if formula.from_logits:
        lines += ["top = max(row)", "e = [math.exp(value - top) for value in row]", "total = sum(e)"]
        lines += ["p = [value / total for value in e]"]
    else:
        lines += ["total = sum(row)"]
        if not formula.one_column:
            lines += ["if total == math.inf:", '    raise ValueError(f"the sum of the row {row} is too large")']
        lines += ["p = [value / total for value in row]"]
    if formula.lifts_probabilities:
        lines.append(f"p = [max(value, {TINY!r}) if logit > -math.inf else 0.0 for value, logit in zip(p, row)]")
    if formula.smoothing:
        lines.append(
            f"p = [(value + {formula.smoothing!r}) / {1.0 + formula.n_classes * formula.smoothing!r} for value in p]"
        )
    if isinstance(formula.row_map, Reweighting):
        return [*lines, "logs = [math.log(p[j]) if p[j] > 0 else -math.inf for j in KEPT]"]
    return lines


def _check_of_numbers(formula: Formula) -> list[str]:
    """Lines that refuse rows of another length, and numbers that are not probabilities or logits, such as NaN."""
    name = input_name(formula)
    if formula.one_column:
        test = "math.isnan(row)" if formula.from_logits else f"not 0 <= row <= {1 + LARGEST_EXCESS!r}"
        return [
            "[row] = numbers([row])",
            f"if {test}:",
            f'    raise ValueError(f"a row must be {allowed_numbers(formula)}, not {{row}}")',
        ]
    valid = "value < math.inf" if formula.from_logits else "0 <= value < math.inf"
    return [
        "row = numbers(row)",
        "if len(row) != len(CLASSES):",
        f'    raise ValueError(f"a row must have {{len(CLASSES)}} {name}, not {{len(row)}}")',
        f"if not all({valid} for value in row):",
        f'    raise ValueError(f"a row must contain {allowed_numbers(formula)}, not {{row}}")',
    ]


def _check_of_classes(formula: Formula) -> list[str]:
    """Lines that refuse rows without a class that can get probability."""
    least = "-math.inf" if formula.from_logits else "0"
    entries = f"row[j] > {least} for j in KEPT" if formula.needs_kept else f"value > {least} for value in row"
    return [f"if not any({entries}):", '    raise ValueError(f"no class of the row {row} can get probability")']


def _ending(formula: Formula) -> list[str]:
    lines = ["adjusted = [0.0] * len(CLASSES)", "for j, value in zip(KEPT, a):", "    adjusted[j] = value"]
    return [*lines, "return adjusted[1]" if formula.one_column else "return adjusted"]


def _highest_level(values: str) -> list[str]:
    """Lines that leave out classes below the highest level that a row has."""
    return [
        f"top = max(level for level, log in zip(LEVELS, {values}) if log > -math.inf)",
        f"{values} = [log if level == top else -math.inf for level, log in zip(LEVELS, {values})]",
    ]


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

_NUMBERS = '''\
def numbers(row):
    """The numbers of a row, as a list."""
    try:
        if isinstance(row, (dict, set)):
            raise TypeError
        return [float(0.0 + value) for value in row]
    except OverflowError:
        raise ValueError(f"the row {row!r} has a number that is too large") from None
    except (TypeError, ValueError):
        raise ValueError(f"a row must be a list of numbers in the order of CLASSES, not {row!r}") from None'''

_UNBOUNDED_SPHERE = """\
norm = math.sqrt(sum(value * value for value in p))
x = [p[j] / norm + by for j, by in zip(KEPT, SHIFT)]
mean = sum(x) / len(x)
rest = 1.0 - sum((value - mean) ** 2 for value in x)
if not rest > 0:
    raise ValueError(f"the row {row} has no unbounded adjustment by this shift")
u = [value - mean + math.sqrt(rest / len(x)) for value in x]
total = sum(u)
a = [value / total for value in u]"""

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


class Python(Language):
    """Python."""

    translation = "a = [value + by for value, by in zip(p, OFFSET)]"
    projection = _PROJECTION
    sphere = _SPHERE
    unbounded_sphere = _UNBOUNDED_SPHERE
    isotonic = _ISOTONIC

    def function(self, formula: Formula, constants: dict[str, str], tests: str) -> str:
        what = input_name(formula)
        body = [*_reading(formula), *self.adjusted(formula), *_ending(formula)]
        lines = [
            f'"""Class probabilities, adjusted by a fixed shift for {formula.loss}. Written by baserate."""',
            "",
            "import math",
            "",
            *(f"{name} = {value}" for name, value in constants.items()),
            "",
            "",
            _NUMBERS,
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

    def reweighting(self, row_map: Reweighting) -> list[str]:
        return [
            *(_highest_level("logs") if row_map.levels is not None else []),
            "x = [log + by for log, by in zip(logs, SHIFT)]",
            "top = max(x)",
            "e = [math.exp(value - top) for value in x]",
            "total = sum(e)",
            f"a = [max(value / total, {TINY!r}) if log > -math.inf else 0.0 for value, log in zip(e, x)]",
        ]

    def power_root(self, row_map: PowerRoot) -> list[str]:
        beta, b = row_map.beta, row_map.beta - 1.0
        if abs(b) < 0.1:
            at_zero = "-math.inf" if b < 0 else repr(-beta / b)
            link = f"{beta / b!r} * math.expm1({b!r} * math.log(q)) if q > 0 else {at_zero}"
            inverse = f"math.exp(math.log1p(y) / {b!r}) if y > -1 else {'math.inf' if b < 0 else '0.0'}"
        else:
            link = f"{beta / b!r} * q ** {b!r} if q > 0 else {'-math.inf' if b < 0 else '0.0'}"
            inverse = f"y ** {1.0 / b!r} if y > 0 else 0.0"
        lines = [f"link = lambda q: {link}", f"inverse = lambda y: {inverse}"]
        lines += ["links = [link(p[j]) for j in KEPT]"]
        if row_map.levels is not None:
            lines += _highest_level("links")
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
            f"a = [max(value / total, {TINY!r}) if d > -math.inf else 0.0 for value, d in zip(a, gap)]"
            if beta <= 1
            else "a = [value / total for value in a]",
        ]
