"""Print the lowest version of each dependency that pyproject.toml allows, as a constraints file for pip.

``make test-min`` installs exactly these versions and runs the tests of the core against them. Without such a run, the
lower bounds would be guesses: pip installs the newest version of everything.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
REQUIREMENT = re.compile(
    r"(?P<name>[\w.-]+) (\[(?P<extras>[\w,\s-]*)\])? \s* (?P<version>[^;]*?) \s* (;\s*(?P<marker>.*))?", re.VERBOSE
)


def lowest(project: dict[str, Any], extras: list[str]) -> dict[str, str]:
    """Return the constraint of each package that the project needs, with and without these extras.

    A bound ``>=1.2`` becomes ``==1.2``; a pin stays as it is. Extras that include other extras of the project are
    followed.
    """
    pins: dict[str, str] = {}
    for match in requirements(project, extras):
        name, version = match["name"].lower(), match["version"]
        bound = re.match(r"(>=|==)\s*([\w.]+)", version)
        if bound is None:
            raise SystemExit(f"{match[0]!r} in pyproject.toml has no lower bound. Write it as {name}>=VERSION.")
        pin = f"{name}=={bound[2]}" + (f"; {match['marker']}" if match["marker"] else "")
        if pins.setdefault(name, pin) != pin:
            raise SystemExit(f"pyproject.toml gives {name} two lower bounds: {pins[name]!r} and {pin!r}.")
    return pins


def requirements(project: dict[str, Any], extras: list[str]) -> Iterator[re.Match[str]]:
    """Yield the parsed requirements of the project itself and of these extras, without the project's own name."""
    groups = project["optional-dependencies"]
    seen, waiting = set(extras), [project["dependencies"], *(groups[extra] for extra in extras)]
    while waiting:
        for line in waiting.pop():
            match = REQUIREMENT.fullmatch(line)
            if match is None:
                raise SystemExit(f"Cannot read the requirement {line!r} in pyproject.toml.")
            if match["name"] != project["name"]:
                yield match
                continue
            more = {extra.strip() for extra in match["extras"].split(",")} - seen
            seen |= more
            waiting += [groups[extra] for extra in sorted(more)]


def main() -> None:
    """Print one constraint per line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("extras", nargs="*", help="extras of pyproject.toml whose dependencies are included")
    extras = parser.parse_args().extras
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    unknown = sorted(set(extras) - set(project["optional-dependencies"]))
    if unknown:
        parser.error(f"pyproject.toml has no extra called {', '.join(unknown)}")
    for _, pin in sorted(lowest(project, extras).items()):
        print(pin)


if __name__ == "__main__":
    main()
