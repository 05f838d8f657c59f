"""Count the functions and modules of baserate that a call passes through.

Each call runs in a fresh process. The table shows how many of our functions it enters, in how many modules, and how
long these functions are, so that a smaller number of functions cannot hide longer ones.

    python tools/call_paths.py                     # this source tree
    python tools/call_paths.py --package ../old/src --json

What counts as a function: functions, methods, properties, nested functions and lambdas whose source is in the package,
in all threads. A compiled kernel counts only if Numba reports it to the profiler, that is, if Python code calls its
dispatcher. Not counted: comprehensions, generator expressions, methods that ``dataclass`` generates, and everything
that runs while a module is imported.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean
from types import CodeType, FrameType
from typing import Any, NamedTuple

SOURCE = Path(__file__).resolve().parents[1] / "src"
COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}
Call = Callable[[], object]
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Function(NamedTuple):
    """A function that a call has entered."""

    module: str
    name: str
    line: int
    body_lines: int


class CodeRecorder:
    """Profile function that collects the code objects of one folder that are entered.

    Parameters
    ----------
    folder : Path
        Only code in files below this folder is collected.
    """

    def __init__(self, folder: Path) -> None:
        self.codes: set[CodeType] = set()
        self._prefix = f"{folder}{os.sep}"
        self._imports = threading.local()

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(self._prefix):
            return
        depth = getattr(self._imports, "depth", 0)
        if code.co_name == "<module>":
            self._imports.depth = depth + (1 if event == "call" else -1)
        # Bodies of classes are code objects without CO_OPTIMIZED.
        elif depth == 0 and code.co_flags & inspect.CO_OPTIMIZED and code.co_name not in COMPREHENSIONS:
            self.codes.add(code)


def record(call: Call, folder: Path) -> set[CodeType]:
    """Run a call and return the code objects below ``folder`` that it entered, in any thread."""
    recorder = CodeRecorder(folder)
    threading.setprofile(recorder)
    sys.setprofile(recorder)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return recorder.codes


def body_lines(node: FunctionNode) -> int:
    """Number of lines from the first statement of a function to its last, without the docstring."""
    if isinstance(node, ast.Lambda):
        return (node.body.end_lineno or 0) - node.body.lineno + 1
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def function_lengths(path: Path) -> dict[tuple[str, int], int]:
    """Number of body lines of each function in a file, by name and first line (that of its first decorator)."""
    lengths = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, FunctionNode):
            decorators = getattr(node, "decorator_list", [])
            first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
            lengths[getattr(node, "name", "<lambda>"), first] = body_lines(node)
    return lengths


def describe(codes: set[CodeType], folder: Path) -> list[Function]:
    """Return the functions that code objects belong to, sorted by module and line."""
    lengths = {name: function_lengths(Path(name)) for name in {code.co_filename for code in codes}}
    functions = []
    for code in codes:
        module = ".".join(Path(code.co_filename).relative_to(folder.parent).with_suffix("").parts)
        length = lengths[code.co_filename][code.co_name, code.co_firstlineno]
        functions.append(Function(module.removesuffix(".__init__"), code.co_qualname, code.co_firstlineno, length))
    return sorted(functions)


def prepare_array(br: Any, folder: Path, n_rows: int, n_classes: int) -> Call:
    """Return a call that adjusts an array."""
    probs, rates = example(n_rows, n_classes)
    return lambda: br.adjust(probs, rates)


def prepare_file(br: Any, folder: Path, n_rows: int, n_classes: int) -> Call:
    """Write a Parquet file and return a call that adjusts it into another one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    probs, rates = example(n_rows, n_classes)
    names = [f"class {j}" for j in range(n_classes)]
    pq.write_table(pa.table(dict(zip(names, probs.T, strict=True))), folder / "file.parquet")
    by_name = dict(zip(names, rates, strict=True))
    return lambda: br.adjust(str(folder / "file.parquet"), by_name, out=str(folder / "out.parquet"))


def prepare_estimator(br: Any, folder: Path, n_rows: int, n_classes: int) -> Call:
    """Return a call that adjusts an array with the scikit-learn transformer."""
    probs, rates = example(n_rows, n_classes)
    return lambda: br.Adjuster(rates=rates).fit_transform(probs)


def example(n_rows: int, n_classes: int) -> tuple[Any, list[float]]:
    """Return random probabilities, and rates that differ from their mean."""
    import numpy as np

    total = n_classes * (n_classes + 1) / 2
    probs = np.random.default_rng(0).dirichlet(np.ones(n_classes), size=n_rows)
    return probs, [(j + 1) / total for j in range(n_classes)]


CALLS: dict[str, Callable[[Any, Path], Call]] = {
    "adjust(array of 200 x 3)": partial(prepare_array, n_rows=200, n_classes=3),
    "adjust(array of 200,000 x 5)": partial(prepare_array, n_rows=200_000, n_classes=5),
    "adjust(Parquet file, out=file)": partial(prepare_file, n_rows=20_000, n_classes=4),
    "Adjuster().fit_transform(array of 200 x 3)": partial(prepare_estimator, n_rows=200, n_classes=3),
}


def measure_here(name: str) -> list[Function]:
    """Run one of the calls in this process and return the functions that it entered."""
    import baserate as br

    package = Path(br.__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        call = CALLS[name](br, Path(folder))
        return describe(record(call, package), package)


def measure(name: str, source: Path) -> list[Function]:
    """Run one of the calls in a fresh process, with the package in ``source``."""
    path = os.pathsep.join(filter(None, [str(source.resolve()), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, __file__, "--measure-here", name]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.PIPE, text=True, check=True)
    return [Function(*fields) for fields in json.loads(done.stdout)]


def summarize(functions: list[Function]) -> dict[str, float]:
    """Return the number of functions and modules, and the mean and largest number of body lines."""
    lengths = [function.body_lines for function in functions]
    return {
        "functions": len(functions),
        "modules": len({function.module for function in functions}),
        "mean_lines": round(fmean(lengths), 1) if lengths else 0.0,
        "max_lines": max(lengths, default=0),
    }


def format_table(measured: dict[str, list[Function]]) -> str:
    """Return the summaries of all calls as a Markdown table."""
    lines = ["| call | functions | modules | mean lines | most lines |", "|---|--:|--:|--:|--:|"]
    for name, functions in measured.items():
        lines.append(f"| {name} | {' | '.join(str(value) for value in summarize(functions).values())} |")
    return "\n".join(lines)


def format_list(functions: list[Function]) -> str:
    """Return the functions by module, with their number of body lines."""
    lines = []
    for module in sorted({function.module for function in functions}):
        lines.append(f"  {module}")
        lines += [f"    {f.name} ({f.body_lines})" for f in functions if f.module == module]
    return "\n".join(lines)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--package", type=Path, default=SOURCE, metavar="DIR", help="folder that holds baserate/")
    parser.add_argument("--json", action="store_true", help="print JSON, with the functions of each call")
    parser.add_argument("--list", action="store_true", help="print the functions of each call by module")
    parser.add_argument("--measure-here", metavar="CALL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure_here:
        print(json.dumps(measure_here(options.measure_here)))
        return
    measured = {name: measure(name, options.package) for name in CALLS}
    if options.json:
        print(json.dumps({k: summarize(v) | {"entered": [f._asdict() for f in v]} for k, v in measured.items()}))
        return
    print(format_table(measured))
    if options.list:
        for name, functions in measured.items():
            print(f"\n{name}\n{format_list(functions)}")


if __name__ == "__main__":
    main()
