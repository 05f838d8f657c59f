"""The import graph of small packages."""

from __future__ import annotations

from pathlib import Path

import pytest
from tool_support import load_tool

tool = load_tool("import_graph")


def make_package(folder: Path, **sources: str) -> Path:
    """Write a package ``baserate``; the keyword ``a__b`` is the file ``a/b.py``."""
    package = folder / "baserate"
    for name, source in {"__init__": "", **sources}.items():
        path = package / f"{name if name.startswith('__') else name.replace('__', '/', 1)}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
        (path.parent / "__init__.py").touch()
    return package


def imports(folder: Path, source: str) -> set[str]:
    """Modules that ``baserate.here`` imports if this is its source."""
    package = make_package(folder, here=source, a="", x__b="", x__c="")
    return tool.module_graph(package)["baserate.here"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import baserate.a", {"a"}),
        ("import baserate.x.b as b", {"x", "x.b"}),
        ("from baserate import a", {"a"}),
        ("from baserate.a import name", {"a"}),
        ("from baserate.a import *", {"a"}),
        ("from baserate.x import b, name", {"x", "x.b"}),
        ("from baserate.x.b import name", {"x", "x.b"}),
        ("from . import a", {"a"}),
        ("from .x import c", {"x", "x.c"}),
        ("from .x.c import name", {"x", "x.c"}),
        ("def f():\n    from baserate import a", {"a"}),
        ("try:\n    import baserate.a\nexcept ImportError:\n    pass", {"a"}),
        ("import numpy\nfrom os import path\nimport baserated.a", set()),
    ],
)
def test_import_statements_are_resolved_to_modules(tmp_path: Path, source: str, expected: set[str]) -> None:
    assert imports(tmp_path, source) == {f"baserate.{name}" for name in expected}


@pytest.mark.parametrize("source", ["import baserate as br", "from baserate import name", "from . import name"])
def test_importing_the_package_itself_counts(tmp_path: Path, source: str) -> None:
    assert imports(tmp_path, source) == {"baserate"}


@pytest.mark.parametrize("test", ["TYPE_CHECKING", "typing.TYPE_CHECKING"])
def test_imports_for_type_checkers_do_not_count(tmp_path: Path, test: str) -> None:
    source = f"if {test}:\n    import baserate.a\nelse:\n    import baserate.x.c"
    assert imports(tmp_path, source) == {"baserate.x", "baserate.x.c"}


def test_imports_for_type_checkers_count_where_names_are_loaded_when_they_are_used(tmp_path: Path) -> None:
    source = "if TYPE_CHECKING:\n    from baserate.x.c import name\n\ndef __getattr__(name):\n    ..."
    assert imports(tmp_path, source) == {"baserate.x", "baserate.x.c"}


def test_imports_for_type_checkers_do_not_count_in_functions(tmp_path: Path) -> None:
    assert imports(tmp_path, "def f():\n    if TYPE_CHECKING:\n        import baserate.a") == set()


def test_relative_imports_start_from_the_package_of_the_module(tmp_path: Path) -> None:
    package = make_package(
        tmp_path, a="", x____init__="from . import b", x__b="from .. import a\nfrom .c import f", x__c=""
    )
    graph = tool.module_graph(package)
    assert graph["baserate.x"] == {"baserate.x.b"}
    assert graph["baserate.x.b"] == {"baserate.a", "baserate.x.c"}


def test_a_package_that_imports_its_own_modules_is_not_a_cycle(tmp_path: Path) -> None:
    package = make_package(tmp_path, x____init__="from baserate.x import b", x__b="import baserate.x.c", x__c="")
    assert tool.cycles(tool.module_graph(package)) == []


def test_a_module_that_imports_from_its_own_package_is_a_cycle(tmp_path: Path) -> None:
    package = make_package(tmp_path, x____init__="from baserate.x import b", x__b="from baserate.x import name")
    assert tool.cycles(tool.module_graph(package)) == [["baserate.x", "baserate.x.b"]]


def test_a_cycle_through_the_init_of_another_package_is_found(tmp_path: Path) -> None:
    package = make_package(
        tmp_path, x____init__="import baserate.x.c", x__b="", x__c="import baserate.a", a="import baserate.x.b"
    )
    assert tool.cycles(tool.module_graph(package)) == [["baserate.a", "baserate.x", "baserate.x.c"]]


def test_imports_in_functions_close_cycles(tmp_path: Path) -> None:
    package = make_package(
        tmp_path, a="import baserate.b", b="def f():\n    import baserate.c", c="import baserate.a", d=""
    )
    assert tool.cycles(tool.module_graph(package)) == [["baserate.a", "baserate.b", "baserate.c"]]


def test_packages_can_form_a_cycle_though_their_modules_do_not(tmp_path: Path) -> None:
    package = make_package(
        tmp_path, x__b="import baserate.y.e", x__c="", y__d="import baserate.x.c", y__e="", z="import baserate.x.b"
    )
    graph = tool.module_graph(package)
    assert tool.cycles(graph) == []
    assert tool.cycles(tool.package_graph(graph)) == [["x", "y"]]


def test_a_layer_is_one_above_the_highest_that_it_imports() -> None:
    graph = {"a": set(), "b": {"a"}, "c": {"a", "b"}, "d": {"a"}, "e": {"c", "d"}}
    assert tool.layers(graph) == {"a": 1, "b": 2, "c": 3, "d": 2, "e": 4}


def test_the_members_of_a_cycle_share_a_layer() -> None:
    assert tool.layers({"a": set(), "b": {"a", "c"}, "c": {"b"}, "d": {"c"}}) == {"a": 1, "b": 2, "c": 2, "d": 3}


def test_the_table_has_the_first_line_of_each_docstring(tmp_path: Path) -> None:
    package = make_package(
        tmp_path,
        __init__='"""All of it."""\nimport baserate.x.b',
        a='"""Arrays | lists.\n\nMore."""',
        x__b="import baserate.a",
    )
    assert tool.layer_table(package).splitlines()[2:] == [
        r"| 1 | `a.py` | Arrays \| lists. |",
        "| 2 | `x/` |  |",
        "| 3 | `__init__.py` | All of it. |",
    ]


def test_the_table_is_written_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package, page = make_package(tmp_path, a=""), tmp_path / "page.md"
    page.write_text(f"Before.\n\n{tool.BEGIN}\nold\n{tool.END}\n\nAfter.\n")
    check = ["--package", str(package), "--check", str(page)]
    assert tool.main(check) == 1
    assert "out of date" in capsys.readouterr().out
    assert tool.main(["--package", str(package), "--write", str(page)]) == 0
    assert tool.main(check) == 0
    assert page.read_text().startswith("Before.\n")
    assert page.read_text().endswith("\n\nAfter.\n")


def test_a_cycle_fails_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package, page = make_package(tmp_path, a="import baserate.b", b="import baserate.a"), tmp_path / "page.md"
    page.write_text(f"{tool.BEGIN}{tool.END}")
    tool.main(["--package", str(package), "--write", str(page)])
    assert tool.main(["--package", str(package), "--check", str(page)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "cycle of modules: baserate.a, baserate.b",
        "cycle of packages: a, b",
    ]


def test_a_page_without_markers_fails_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "page.md").write_text("No table.")
    assert tool.main(["--package", str(make_package(tmp_path)), "--check", str(tmp_path / "page.md")]) == 1
    assert "page.md: the page has no lines" in capsys.readouterr().out
