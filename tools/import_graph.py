"""Show which modules of baserate import which, find cycles, and write the table of layers in CONTRIBUTING.md.

    python tools/import_graph.py           # print cycles and the table of layers
    python tools/import_graph.py --write   # update the table in CONTRIBUTING.md
    python tools/import_graph.py --check   # exit with status 1 if there is a cycle or the table is out of date

The graph is read from the source, and nothing is imported. It has an edge for every import statement, also inside
functions. Imports under ``if TYPE_CHECKING:`` count only in a module with a function ``__getattr__``, which loads these
names when they are used. Modules that are imported by name at run time, with ``importlib.import_module``, are not seen.

``from baserate.x import name`` is an import of ``baserate.x.name`` if that is a module, else of ``baserate.x``. Python
runs the ``__init__`` of a package before its submodules, so an import of a submodule also counts as an import of its
package, but only for modules outside that package. Otherwise every package whose ``__init__`` imports its own modules
would be a cycle. An explicit import of the package, such as ``import baserate`` in one of its modules, always counts.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "baserate"
PAGE = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- layers: begin -->", "<!-- layers: end -->"

Graph = dict[str, set[str]]


def find_modules(package: Path) -> dict[str, Path]:
    """Return the files of all modules of a package, by dotted name."""
    modules = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        modules[".".join(parts).removesuffix(".__init__")] = path
    return modules


def module_graph(package: Path) -> Graph:
    """Return the modules that each module of a package imports."""
    modules = find_modules(package)
    return {name: imports_of(name, path, modules) - {name} for name, path in modules.items()}


def imports_of(name: str, path: Path, modules: Iterable[str]) -> set[str]:
    """Return those of ``modules`` that the module ``name``, in the file ``path``, imports."""
    parts = name.split(".")
    package = parts if path.name == "__init__.py" else parts[:-1]
    ancestors = {".".join(parts[:i]) for i in range(1, len(parts))}
    imported = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    loads_when_used = any(isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in tree.body)
    for node in ast.walk(tree) if loads_when_used else _statements(tree):
        for target in _targets(node, package, modules):
            outer = target.split(".")
            packages = {".".join(outer[:i]) for i in range(1, len(outer))}
            imported |= {target} | (packages - ancestors)
    return imported & set(modules)


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes except those that only type checkers see."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and _is_type_checking(node.test):
            yield from _statements(ast.Module(node.orelse, []))
        else:
            yield node
            yield from _statements(node)


def _is_type_checking(test: ast.expr) -> bool:
    name = test.id if isinstance(test, ast.Name) else test.attr if isinstance(test, ast.Attribute) else None
    return name == "TYPE_CHECKING"


def _targets(node: ast.AST, package: list[str], modules: Iterable[str]) -> Iterator[str]:
    """Yield the dotted names of the modules that a node imports, if it is an import statement."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = package[: len(package) + 1 - node.level] if node.level else []
        base = ".".join([*above, *([node.module] if node.module else [])])
        for alias in node.names:
            submodule = f"{base}.{alias.name}"
            yield submodule if submodule in modules else base


def package_graph(graph: Graph) -> Graph:
    """Return the graph of the top-level modules and packages; ``__init__`` stands for the package itself."""
    top: Graph = {_top(name): set() for name in graph}
    for name, imported in graph.items():
        top[_top(name)] |= {_top(other) for other in imported} - {_top(name)}
    return top


def _top(name: str) -> str:
    return name.split(".")[1] if "." in name else "__init__"


def reachable(graph: Graph, start: str) -> set[str]:
    """Return all nodes that can be reached from a node in one or more steps."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting.extend(new)
    return found


def components(graph: Graph) -> dict[str, frozenset[str]]:
    """Return the strongly connected component of each node."""
    reach = {node: reachable(graph, node) for node in graph}
    return {node: frozenset({node} | {other for other in reach[node] if node in reach[other]}) for node in graph}


def cycles(graph: Graph) -> list[list[str]]:
    """Return the strongly connected components of more than one node, sorted."""
    return sorted(sorted(component) for component in set(components(graph).values()) if len(component) > 1)


def layers(graph: Graph) -> dict[str, int]:
    """Return the layer of each node: 1 if it imports no other, else 1 more than the highest that it imports.

    The nodes of a cycle share a layer.
    """
    component = components(graph)

    @cache
    def layer(members: frozenset[str]) -> int:
        below = set().union(*(graph[node] for node in members)) - members
        return 1 + max((layer(component[node]) for node in below), default=0)

    return {node: layer(component[node]) for node in graph}


def layer_table(package: Path) -> str:
    """Return a Markdown table of the top-level modules and packages, from the lowest layer to the highest."""
    lines = ["| layer | module | contents |", "|--:|---|---|"]
    by_layer = layers(package_graph(module_graph(package)))
    for name in sorted(by_layer, key=lambda name: (by_layer[name], name)):
        is_package = (package / name).is_dir()
        path = package / name / "__init__.py" if is_package else package / f"{name}.py"
        lines.append(f"| {by_layer[name]} | `{name}{'/' if is_package else '.py'}` | {_summary(path)} |")
    return "\n".join(lines)


def _summary(path: Path) -> str:
    """Return the first line of a module's docstring, as the text of a table cell."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) if path.exists() else None
    return (docstring or "").partition("\n")[0].replace("|", r"\|")


def with_table(text: str, table: str) -> str:
    """Return a page with the text between the markers replaced by the table."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page has no lines {BEGIN} and {END}; add them where the table of layers belongs")
    return f"{before}{begin}\n\n{table}\n\n{end}{after}"


def cycle_messages(package: Path) -> list[str]:
    """Return a message for each cycle of modules, and for each cycle of top-level modules and packages."""
    graph = module_graph(package)
    found = [f"cycle of modules: {', '.join(cycle)}" for cycle in cycles(graph)]
    return found + [f"cycle of packages: {', '.join(cycle)}" for cycle in cycles(package_graph(graph))]


def table_messages(package: Path, page: Path) -> list[str]:
    """Return a message if the table of layers in ``page`` is missing or out of date."""
    text = page.read_text(encoding="utf-8")
    try:
        current = with_table(text, layer_table(package)) == text
    except ValueError as error:
        return [f"{page.name}: {error}"]
    return [] if current else [f"{page.name}: the table of layers is out of date; run tools/import_graph.py --write"]


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--package", type=Path, default=PACKAGE, metavar="DIR", help="package to read")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--write", type=Path, nargs="?", const=PAGE, metavar="FILE", help="update the table in FILE")
    action.add_argument("--check", type=Path, nargs="?", const=PAGE, metavar="FILE", help="check the table in FILE")
    options = parser.parse_args(arguments)
    if options.write:
        text = options.write.read_text(encoding="utf-8")
        options.write.write_text(with_table(text, layer_table(options.package)), encoding="utf-8")
        return 0
    found = cycle_messages(options.package)
    if options.check:
        found += table_messages(options.package, options.check)
        print("\n".join(found) or "no cycles, and the table of layers is up to date")
        return int(bool(found))
    print("\n".join(found) or "no cycles")
    print(f"\n{layer_table(options.package)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
