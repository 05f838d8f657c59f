"""Shifts as SQL queries on PostgreSQL, which raises an error where other databases round small numbers to 0."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deploy_support import HOSTILE_NAMES, fitted, hard_rows
from support import Array, loss_id

import baserate as br

pytest.importorskip("sqlglot")
pytestmark = pytest.mark.stress

Run = Callable[[str], list[dict[str, Any]]]


def program(name: str) -> str | None:
    """The path of a program of PostgreSQL. Debian does not put those of the server on the path."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return shutil.which(name) or next((str(folder / name) for folder in folders if (folder / name).exists()), None)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Run]:
    """Runs a script on a server of its own, and returns the rows of its last query."""
    initdb, control, client = (program(name) for name in ("initdb", "pg_ctl", "psql"))
    if initdb is None or control is None or client is None:
        pytest.skip("PostgreSQL is not installed")
    # Not a folder of pytest, which only its own user can enter.
    with tempfile.TemporaryDirectory(prefix="baserate-postgres-", ignore_cleanup_errors=True) as folder:
        yield from _server(Path(folder), initdb, control, client)


def _server(folder: Path, initdb: str, control: str, client: str) -> Iterator[Run]:
    as_user: list[str] = []
    if os.getuid() == 0:  # the server refuses to run as root
        if shutil.which("runuser") is None or subprocess.run(["id", "postgres"], capture_output=True).returncode:
            pytest.skip("the tests run as root, and there is no user postgres")
        shutil.chown(folder, "postgres")
        as_user = ["runuser", "-u", "postgres", "--"]
    data, options = folder / "data", f"-k {folder} -c listen_addresses= -c fsync=off"

    def call(*arguments: Any, **given: Any) -> str:
        done = subprocess.run([*map(str, arguments)], capture_output=True, text=True, cwd=folder, **given)
        assert done.returncode == 0, done.stderr
        return done.stdout

    call(*as_user, initdb, "-D", data, "-U", "tester", "-E", "UTF8", "--no-sync")
    # Not captured: the server would keep the pipe open.
    start = [*as_user, control, "-D", data, "-o", options, "-l", folder / "log", "-w", "start"]
    subprocess.run([*map(str, start)], check=True, stdout=subprocess.DEVNULL, cwd=folder)

    def run(script: str) -> list[dict[str, Any]]:
        quiet = ["-q", "-A", "-t", "-X", "-v", "ON_ERROR_STOP=1"]
        text = call(client, "-h", folder, "-U", "tester", "-d", "postgres", *quiet, input=script)
        return sorted((json.loads(line) for line in text.splitlines()), key=lambda row: row["id"])

    try:
        yield run
    finally:
        call(*as_user, control, "-D", data, "-m", "immediate", "stop")


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def script(names: list[str], rows: Array, query: str) -> str:
    """A script that fills the table, adds a row of NULLs, and prints the answer as JSON."""
    columns = ", ".join(f"{quoted(name)} double precision" for name in names)
    lines = [",".join([str(i), *(repr(float(value)) for value in row)]) for i, row in enumerate(rows)]
    copied = "\n".join([r"\copy predictions FROM stdin WITH (FORMAT csv)", *lines, r"\."])
    return (
        f"DROP TABLE IF EXISTS predictions; CREATE TABLE predictions (id int, {columns});\n{copied}\n"
        f"INSERT INTO predictions (id) VALUES ({len(rows)});\nSELECT row_to_json(answer) FROM ({query}) AS answer;\n"
    )


LOSSES = [
    (br.losses.Log(), 2),
    (br.losses.Log(), 5),
    (br.losses.Log(), 300),
    (br.losses.Brier(), 5),
    (br.losses.WeightedBrier([0.2, 1.0, 5.0, 1.0]), 4),
    (br.losses.RankedProbability(), 5),
    (br.losses.Spherical(), 4),
]


@pytest.mark.parametrize("reading", ["probabilities", "logits", "smoothing", "rate of 0"])
@pytest.mark.parametrize(("loss", "k"), LOSSES, ids=loss_id)
def test_queries_give_what_apply_gives(loss: Any, k: int, reading: str, postgres: Run) -> None:
    names = HOSTILE_NAMES[:k] if k <= 5 else [f"p_{j}" for j in range(k)]
    rows, given = hard_rows(k, n=30), {}
    if reading == "rate of 0":
        given, rows = {"rates": np.arange(k) / np.arange(k).sum()}, rows[(rows[:, 1:] > 0).any(axis=1)]
    elif reading == "smoothing":
        given = {"zeros": 1e-4}
    elif reading == "logits":
        given = {"from_logits": True}
        with np.errstate(divide="ignore"):
            rows = np.log(rows)
    result = fitted(loss, k, classes=names, **given)
    answer = postgres(script(names, rows, result.to_sql(dialect="postgres", keep=["id"])))
    found = np.array([[row[name] for name in names] for row in answer], dtype=float)
    assert np.abs(found[:-1] - result.apply(rows)).max() <= 1e-12
    assert np.isnan(found[-1]).all()
