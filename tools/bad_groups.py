"""Mistakes that are made with rates per group, in Python and on the command line, and the message of each.

    python tools/bad_groups.py            # a Markdown table of all calls and messages

The tests run the same calls, and compare the messages with those that are expected here.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from click.testing import CliRunner
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import baserate as br
from baserate.cli import main as command_line


class BadCall(NamedTuple):
    """A call, and the message of its error or warning."""

    code: str
    message: str


CALLS: tuple[BadCall, ...] = ()


def inputs(folder: Path) -> dict[str, Any]:
    """The names that the calls use, and the files that the commands read."""
    p, region, age = np.array([0.1, 0.4, 0.7, 0.02, 0.55, 0.25]), ["north", "south"] * 3, [1, 1, 1, 2, 2, 2]
    rates = {"north": 0.2, "south": 0.3}
    table = pd.DataFrame({"well": [0.8, 0.7], "ill": [0.2, 0.3]}, index=pd.Index(["north", "south"], name="region"))
    frame = pd.DataFrame({"id": range(6), "well": 1 - p, "ill": p, "region": region, "age": age})
    x = np.random.default_rng(0).normal(size=(6, 1))
    by_region = br.Rates.by("region", rates)
    fitted = br.adjust(p, by_region, groups=region)
    frame.to_csv(folder / "preds.csv", index=False)
    frame.replace("south", "east").to_csv(folder / "east.csv", index=False)
    table.to_csv(folder / "rates.csv")
    table.iloc[:1].to_csv(folder / "short.csv")
    (table * 0.9).round(2).to_csv(folder / "rounded.csv")
    br.adjust(frame, br.Rates.by("region", table)).save(folder / "shift.json")
    return {
        "br": br,
        "np": np,
        "pd": pd,
        "p": p,
        "zeros": np.where(np.arange(6) % 2 == 0, 0.0, p),
        "region": region,
        "rates": rates,
        "table": table,
        "long_table": table.reset_index().melt("region", var_name="class", value_name="rate"),
        "counts": pd.DataFrame({"well": [40, 30], "ill": [10, 20]}, index=table.index),
        "by_region": by_region,
        "frame": frame,
        "x": x,
        "model": FrozenEstimator(LogisticRegression().fit(x, [0, 1] * 3)),
        "fitted": fitted,
        "folder": folder,
    }


def message_of(code: str, names: dict[str, Any]) -> str:
    """The message of the error or the warning of a call; empty if it has none."""
    if code.startswith("baserate "):
        with contextlib.chdir(names["folder"]):
            answer = CliRunner().invoke(command_line, shlex.split(code)[1:])
        lines = [line for line in answer.output.splitlines() if line.startswith(("Error:", "Warning:"))]
        return lines[0] if lines else ""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            eval(code, dict(names))
        except (br.BaserateError, Warning) as error:
            where = f"{names['folder']}{os.sep}"
            return f"{type(error).__name__}: {str(error).replace(where, '')}"
    return ""


def main() -> None:
    """Print the table."""
    print("| call | message |\n|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        names = inputs(Path(folder))
        for call in CALLS:
            print(f"| `{call.code}` | {message_of(call.code, names).replace('|', chr(92) + '|')} |")


if __name__ == "__main__":
    main()
