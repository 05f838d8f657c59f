"""Rules for the source as a whole: imports, top-level modules, function length, suppressions, new losses."""

from __future__ import annotations

import ast
import functools
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tool_support import ROOT, load_tool

import baserate as br

import_graph = load_tool("import_graph")
body_lines = load_tool("call_paths").body_lines

PACKAGE = ROOT / "src" / "baserate"
MAX_TOP_LEVEL_MODULES = 6
MAX_BODY_LINES = 50
HEAVY_PACKAGES = {
    "scipy",
    "sklearn",
    "pandas",
    "polars",
    "matplotlib",
    "cvxpy",
    "pyarrow",
    "dask",
    "distributed",
    "numba",
    "torch",
    "triton",
    "tqdm",
    "sqlglot",
    "onnx",
    "skl2onnx",
}
"""Packages that may only be loaded when they are used."""

COMPILED_KERNELS = [
    "passes/kernels/brier.py",
    "passes/kernels/cells.py",
    "passes/kernels/groups.py",
    "passes/kernels/log.py",
    "passes/kernels/newton.py",
    "passes/triton_kernels.py",
    "passes/triton_wide.py",
]
"""Files with compiled loops, which may be longer because a call inside them costs time or prevents vectorization."""

Check = Callable[[str], Iterator[int]]

_SUPPRESSION = re.compile(r"#\s*(?:noqa\b(?::\s*[A-Z]+\d+(?:[,\s]+[A-Z]+\d+)*)?|type:\s*ignore\b(?:\[[^\]]*\])?)")


@functools.cache
def nodes(source: str) -> list[ast.AST]:
    """All nodes of a file, which several checks look at."""
    return list(ast.walk(ast.parse(source)))


def writes_to_vars(source: str) -> Iterator[int]:
    """Yield the lines with ``vars(self)[...]``, or an assignment to an item of ``vars(...)`` or ``__dict__``."""
    for node in nodes(source):
        if isinstance(node, ast.Subscript):
            of_self = ast.unparse(node.value) == "vars(self)"
            called = isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "vars"
            namespace = called or (isinstance(node.value, ast.Attribute) and node.value.attr == "__dict__")
            if of_self or (namespace and not isinstance(node.ctx, ast.Load)):
                yield node.lineno


def bare_expressions(source: str) -> Iterator[int]:
    """Yield the lines with a statement that only reads a name, an attribute or an item."""
    for node in nodes(source):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Attribute | ast.Name | ast.Subscript):
            yield node.lineno


def long_functions(source: str) -> Iterator[int]:
    """Yield the lines of functions that are too long."""
    for node in nodes(source):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and body_lines(node) > MAX_BODY_LINES:
            yield node.lineno


def unexplained_suppressions(source: str) -> Iterator[int]:
    """Yield the lines with a ``noqa`` or ``type: ignore`` that is not followed by a reason."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and (found := list(_SUPPRESSION.finditer(token.string))):
            reason = _SUPPRESSION.sub("", token.string[found[0].start() :])
            if not re.search(r"[A-Za-z]{2}", reason):
                yield token.start[0]


def places(check: Check, *folders: Path, skip: list[str] | None = None) -> list[str]:
    """Return ``file:line`` of everything that a check finds in the Python files of some folders."""
    found = []
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            if path.relative_to(folder).as_posix() not in (skip or []):
                lines = sorted(check(path.read_text(encoding="utf-8")))
                found += [f"{path.relative_to(ROOT).as_posix()}:{line}" for line in lines]
    return found


@pytest.fixture(scope="module")
def graph() -> Any:
    """Which module imports which."""
    return import_graph.module_graph(PACKAGE)


def test_modules_do_not_import_each_other_in_a_cycle(graph: Any) -> None:
    assert import_graph.cycles(graph) == []


def test_top_level_packages_do_not_import_each_other_in_a_cycle(graph: Any) -> None:
    assert import_graph.cycles(import_graph.package_graph(graph)) == []


def test_few_modules_are_at_the_top_level() -> None:
    names = sorted(path.name for path in PACKAGE.glob("*.py"))
    assert len(names) <= MAX_TOP_LEVEL_MODULES, names


def test_the_table_of_layers_is_up_to_date() -> None:
    assert import_graph.table_messages(PACKAGE, ROOT / "CONTRIBUTING.md") == []


def test_attributes_are_not_written_through_vars() -> None:
    assert places(writes_to_vars, PACKAGE) == []


def test_statements_do_something() -> None:
    assert places(bare_expressions, PACKAGE) == []


def test_functions_are_short() -> None:
    assert places(long_functions, PACKAGE, skip=COMPILED_KERNELS) == []


def test_files_with_compiled_kernels_exist() -> None:
    assert [name for name in COMPILED_KERNELS if not (PACKAGE / name).is_file()] == []


def test_every_suppressed_warning_has_a_reason() -> None:
    assert places(unexplained_suppressions, PACKAGE, ROOT / "tests") == []


def test_the_documented_new_loss_is_one_short_file() -> None:
    lines = (ROOT / "examples" / "hierarchical_log.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 80
    assert "hierarchical_log" in [cls.name for cls in br.losses.registered()]
    mentions = [path for path in PACKAGE.rglob("*.py") if "ierarchical" in path.read_text(encoding="utf-8")]
    assert not mentions, "a new loss must not need changes in the package"


def test_two_losses_cannot_have_the_same_name() -> None:
    with pytest.raises(br.errors.BadLoss, match="the loss name 'log' is already used by Log"):

        @br.losses.register
        class AnotherLog(br.losses.Brier):
            name = "log"


def test_importing_the_command_line_does_not_load_heavy_packages() -> None:
    code = "import sys, baserate.cli; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not HEAVY_PACKAGES & set(loaded)


LONG = "\n".join(["def f():", '    """Docstring.', "    More.", '    """', *["    x = 1"] * MAX_BODY_LINES])


@pytest.mark.parametrize(
    ("check", "source", "lines"),
    [
        (writes_to_vars, "a = vars(self)['b']\nvars(other)['b'] = 1\ndel c.__dict__['b']", [1, 2, 3]),
        (writes_to_vars, "'b' in vars(self)\na = vars(other)['b']\nd['b'] = 1", []),
        (bare_expressions, "a.b\nc\nd[0]", [1, 2, 3]),
        (bare_expressions, "'Docstring.'\na.b()\nx = c\n...", []),
        (long_functions, LONG, []),
        (long_functions, f"{LONG}\n    x = 2", [1]),
        (
            unexplained_suppressions,
            "a  # noqa\nb  # noqa: B018, F401\nc  # type: ignore[misc]\nd  # type: ignore",
            [1, 2, 3, 4],
        ),
        (unexplained_suppressions, "a  # type: ignore[misc]  # noqa: B018", [1]),
        (
            unexplained_suppressions,
            "a  # noqa: B018  # it fills a cache\nb  # noqa: F401, only whether it is there",
            [],
        ),
        (unexplained_suppressions, "a  # type: ignore[misc]  # noqa: B018  # click declares it", []),
        (unexplained_suppressions, "a = 'x  # noqa'  # a comment about noqa", []),
    ],
)
def test_the_checks_find_what_they_should(check: Check, source: str, lines: list[int]) -> None:
    assert sorted(check(source)) == lines
