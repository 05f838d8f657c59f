"""The house: rooms that know only the rooms below them, and one file for one new thing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import baserate as br

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "baserate"

# From the ground up. A module may import those of lower floors, and of its own folder.
FLOORS = [
    ["arrays", "errors", "progress", "threads"],
    ["files", "inputs", "intervals", "regions"],
    ["columns", "labels", "proximal", "rates", "training"],
    ["frames", "partitions", "tables"],
    ["losses"],
    ["engines", "solver"],
    ["kernels", "secant"],
    ["problem"],
    ["feasibility", "origin", "pose", "text"],
    ["fit", "result"],
    ["adjust"],
    ["advise", "compare", "many", "estimators", "sensitivity", "shifts", "theory"],
    ["demo", "displays", "faults", "moves"],
    ["report"],
    ["study"],
    ["cli"],
    ["__main__"],
]
# An answer hands itself over to those who make a page of it.
HANDS_OVER = {"result": "report"}
FLOOR_OF = {name: height for height, names in enumerate(FLOORS) for name in names}


def imported_rooms(path: Path) -> set[str]:
    """Rooms of this package that a module imports when it runs; type checkers may look anywhere."""
    rooms = set()
    tree = ast.parse(path.read_text())
    tree.body = [
        node for node in tree.body if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            rooms |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("baserate.")}
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "baserate":
            parts = node.module.split(".")
            rooms |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
    return rooms


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_rooms_below_it(path: Path) -> None:
    room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if room == "__init__":
        return
    assert room in FLOOR_OF, "a new room needs a floor"
    others = imported_rooms(path) - {room, HANDS_OVER.get(room)}
    above = {other for other in others if FLOOR_OF[other] >= FLOOR_OF[room]}
    assert not above


def test_the_documented_new_loss_is_one_short_file() -> None:
    lines = (ROOT / "examples" / "hierarchical_log.py").read_text().splitlines()
    assert len(lines) <= 80
    assert "hierarchical_log" in [cls.name for cls in br.losses.registered()]
    mentions = [path for path in PACKAGE.rglob("*.py") if "ierarchical" in path.read_text()]
    assert not mentions, "no other file has to know of it"


def test_a_name_can_be_taken_once() -> None:
    with pytest.raises(br.errors.BadLoss, match="the name 'log' is taken by Log"):

        @br.losses.register
        class Impostor(br.losses.Brier):
            name = "log"


def test_importing_does_not_load_what_may_never_be_needed() -> None:
    code = "import sys, baserate.cli; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"scipy", "sklearn", "pandas", "polars", "matplotlib", "cvxpy", "pyarrow", "dask", "distributed", "numba"}
    assert not heavy & set(loaded)
