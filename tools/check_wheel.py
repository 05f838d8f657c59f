"""Check that a wheel contains the package and nothing else; ``make dist`` runs this on the wheel that it has built."""

from __future__ import annotations

import sys
from pathlib import Path
from zipfile import ZipFile

SOURCE = Path(__file__).parents[1] / "src"
NEEDED = {"baserate/py.typed", "baserate/report/page.html.j2", "baserate/report/page.md.j2"}
"""Files that are not Python modules, so a change of the build settings could leave them out without notice."""


def main(wheel: Path) -> None:
    """Compare the files in the wheel with those of the source tree."""
    with ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {
        path.relative_to(SOURCE).as_posix()
        for path in (SOURCE / "baserate").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    problems = {
        "is required, but it is not in the wheel": NEEDED - inside,
        "is in the source tree, but not in the wheel": expected - inside - NEEDED,
        "is in the wheel, but not in the source tree": inside - expected,
    }
    lines = [f"{name} {problem}" for problem, names in problems.items() for name in sorted(names)]
    if lines:
        raise SystemExit("\n".join([f"{wheel.name} is not as expected:", *lines]))
    print(f"{wheel.name} contains the {len(inside)} files of the package and nothing else.")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: check_wheel.py WHEEL")
    main(Path(sys.argv[1]))
