"""Try the installed package as a user would; ``make dist`` runs this in a clean environment, outside the repository.

The test suite runs on the source tree. This script finds what only an installed wheel can show: a dependency that is
not declared, a file that was left out, a command that does not start.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import baserate as br

REPOSITORY = Path(__file__).parents[1]
TABLE = "id,p_cat,p_dog\n1,0.7,0.3\n2,0.4,0.6\n3,0.2,0.8\n"


def check_import() -> None:
    """The package that was imported is the installed one, and is complete enough to say its version."""
    assert REPOSITORY / "src" not in Path(br.__file__).parents, f"{br.__file__} is the source tree, not the wheel"
    assert br.__version__ == version("baserate")


def check_adjustment() -> None:
    """An adjustment reaches the rates and proves it."""
    result = br.adjust([[0.7, 0.3], [0.4, 0.6]], [0.3, 0.7])
    assert result.converged
    assert result.certificate.residual < 1e-10
    assert result.certificate.gap < 1e-9
    assert result.certificate.loss_reduction > 0


def check_command(folder: Path) -> None:
    """The command line starts, and adjusts a CSV file or says which extra that needs."""
    assert run(folder, "--version").stdout.split()[-1] == br.__version__
    (folder / "in.csv").write_text(TABLE, encoding="utf-8")
    done = run(folder, "adjust", "in.csv", "--rates", "cat=0.3,dog=0.7", "--out", "out.csv", check=False)
    if importlib.util.find_spec("pyarrow") is None:
        assert done.returncode != 0
        assert "baserate[files]" in done.stderr, done.stderr
        return
    assert done.returncode == 0, done.stderr
    rows = [line.split(",") for line in (folder / "out.csv").read_text(encoding="utf-8").splitlines()[1:]]
    assert [row[0] for row in rows] == ["1", "2", "3"]
    assert abs(sum(float(row[1]) for row in rows) / len(rows) - 0.3) < 1e-9


def run(folder: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run the command that was installed beside this Python."""
    command = [str(Path(sys.executable).with_name("baserate")), *arguments]
    # Without PYTHONPATH, which could lead back to the source tree.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, cwd=folder, env=environment, check=check, capture_output=True, text=True)


def main() -> None:
    """Run all checks; the first that fails ends the program with an error."""
    check_import()
    check_adjustment()
    with tempfile.TemporaryDirectory() as folder:
        check_command(Path(folder))
    files = "with" if importlib.util.find_spec("pyarrow") else "without"
    print(f"baserate {br.__version__} works as installed, {files} the files extra.")


if __name__ == "__main__":
    main()
