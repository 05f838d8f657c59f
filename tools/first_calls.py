"""The calls that a new user tries first, in Python and on the command line, and what each returns.

    python tools/first_calls.py                            # a Markdown table of all calls
    python tools/first_calls.py --before OTHER/src         # beside it, what another version of the package returns

The tests run the same calls, and compare what they return with what is expected here.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa


class FirstCall(NamedTuple):
    """A call, and a description of what it returns."""

    code: str
    returns: str


WHOLE = "DataFrame id p_ill name p_well"
MATRIX, VECTOR = "float64 array (6, 2), mean 0.2", "float64 array (6,), mean 0.2"
P = np.array([0.1, 0.4, 0.7, 0.02, 0.55, 0.25])

PYTHON = (
    # kinds of predictions
    FirstCall("br.adjust(p, 0.2).probs", VECTOR),
    FirstCall("br.adjust(p.tolist(), 0.2).probs", VECTOR),
    FirstCall("br.adjust(p[:, None], 0.2).probs", "float64 array (6, 1), mean 0.2"),
    FirstCall("br.adjust(p.astype('float32'), 0.2).probs", "float32 array (6,), mean 0.2"),
    FirstCall("br.adjust(series, 0.2).probs", "pandas Series 'ill' float64, index u..z, mean 0.2"),
    FirstCall("br.adjust(series.astype('Float32'), 0.2).probs", "pandas Series 'ill' Float32, index u..z, mean 0.2"),
    FirstCall("br.adjust(pl.Series('ill', p), 0.2).probs", "polars Series 'ill' Float64, mean 0.2"),
    FirstCall("br.adjust(pa.array(p), 0.2).probs", "pyarrow DoubleArray double, mean 0.2"),
    FirstCall("br.adjust(pa.chunked_array([p]), 0.2).probs", "pyarrow ChunkedArray double, mean 0.2"),
    FirstCall("br.adjust(both, 0.2).probs", MATRIX),
    FirstCall("br.adjust(both.astype('float32'), 0.2).probs", "float32 array (6, 2), mean 0.2"),
    FirstCall("br.adjust(both.astype('float32'), 0.2, dtype='float64').probs", MATRIX),
    FirstCall("br.adjust(np.log(p / (1 - p)), 0.2, from_logits=True).probs", VECTOR),
    FirstCall("br.adjust(frame['p_ill'], 0.2).probs", "pandas Series 'p_ill' float32, index u..z, mean 0.2"),
    FirstCall("br.adjust(frame, {'ill': 0.2}).frame", f"pandas {WHOLE}, index u..z, mean 0.2"),
    FirstCall("br.adjust(frame, 0.2, columns='p_ill').frame", f"pandas {WHOLE}, index u..z, mean 0.2"),
    FirstCall("br.adjust(pl.from_pandas(frame), {'ill': 0.2}).frame", f"polars {WHOLE}, mean 0.2"),
    FirstCall("br.adjust(arrow, {'ill': 0.2}).frame", "pyarrow Table id p_ill name p_well, mean 0.2"),
    FirstCall("br.adjust(frame, {'ill': 0.2}).probs", "pandas DataFrame p_ill p_well, index u..z, mean 0.2"),
    FirstCall("br.adjust(pd.DataFrame(both), {'1': 0.2}).probs", "pandas DataFrame 0 1, mean 0.2"),
    # kinds of rates
    FirstCall("br.adjust(p, {'ill': 0.2}).classes", "('not ill', 'ill')"),
    FirstCall("br.adjust(p, [0.8, 0.2]).probs", VECTOR),
    FirstCall("br.adjust(p, br.Rates.between(0.1, 0.2)).probs", VECTOR),
    FirstCall("br.adjust(p, br.Rates.near(0.15, 0.05)).probs", VECTOR),
    FirstCall("br.adjust(p, br.Rates.from_counts(4, total=50))", "Adjustment"),
    FirstCall("br.adjust(p, br.Rates.from_counts({'ill': 4}, total=50))", "Adjustment"),
    FirstCall("br.adjust(p, br.Rates.of_population(0.2))", "Adjustment"),
    FirstCall("br.adjust(three, {'a': 0.5}).certificate.known", "Rates: a 0.5, b at most 0.5, c at most 0.5"),
    # verbs
    FirstCall("br.prior_adjust(p, 0.5, 0.02).probs", "float64 array (6,), mean 0.01544"),
    FirstCall("br.additive(p, 0.2).probs", VECTOR),
    FirstCall("br.adjust(p, 0.2).apply(series)", "pandas Series 'ill' float64, index u..z, mean 0.2"),
    FirstCall("br.adjust(p, 0.2).apply(0.5)", "float64"),
    FirstCall("br.adjust(frame, {'ill': 0.2}).apply(frame, whole=True)", f"pandas {WHOLE}, index u..z, mean 0.2"),
    FirstCall("br.adjust(p, 0.2).what_if(0.3).probs", "float64 array (6,), mean 0.3"),
    FirstCall("saved(br.adjust(p, 0.2)).apply(p)", VECTOR),
    FirstCall("br.compare(p, y, 0.2)", "Comparison"),
    FirstCall("br.compare(series, y, {'ill': 0.2}, {'ill': 0.5})", "Comparison"),
    FirstCall("br.advise(p, 0.2, 0.5)", "Advice"),
    FirstCall("br.sensitivity(p, 0.2)", "Sensitivity"),
    FirstCall("br.adjust(p, 0.2).report(folder / 'page.html', y=y)", "None"),
    FirstCall("br.ReliabilityDisplay.from_predictions(p, br.adjust(p, 0.2).probs, y)", "ReliabilityDisplay"),
    FirstCall("br.adjust_many([(p, 0.2)])[0].probs", VECTOR),
    FirstCall("br.adjust_multilabel(labels, [0.2, 0.4]).probs", "float64 array (6, 2), mean 0.4"),
    FirstCall("frozen.adapt(x, 0.2).predict_proba(x)", MATRIX),
    FirstCall("frozen.adapt(x, br.Rates.between(0.1, 0.2))", "AdjustedClassifier"),
)

COMMANDS = (
    FirstCall("baserate adjust one.csv --columns p --rates 0.2 --out out.csv", "wrote p: mean 0.2"),
    FirstCall("baserate adjust one.csv --columns p --rates 0.1..0.2 --out out.csv", "wrote p: mean 0.2"),
    FirstCall(
        "baserate adjust one.csv --columns p --classes no,yes --rates yes=20% --out out.csv", "wrote p: mean 0.2"
    ),
    FirstCall("baserate adjust one.csv --columns p --rates counts:4/50 --out out.csv", "wrote p: mean 0.3333"),
    FirstCall("baserate adjust both.parquet --rates ill=0.2 --out out.csv", "wrote p_ill: mean 0.2"),
    FirstCall("baserate prior one.csv --columns p --old-rates 0.5 --rates 0.02 --out out.csv", "wrote p: mean 0.01544"),
    FirstCall("baserate compare one.csv --columns p --labels y --rates 0.2", "printed"),
    FirstCall("baserate compare one.csv --columns p --labels y --rates 0.2 --json", "printed JSON"),
    FirstCall("baserate advise one.csv --columns p --rates 0.2 --old-rates 0.5", "printed"),
    FirstCall("baserate advise one.csv --columns p --rates 0.2 --json", "printed JSON"),
)


def inputs(folder: Path) -> dict[str, Any]:
    """The names that the calls use. Writes the files that the commands use into ``folder``."""
    from sklearn.frozen import FrozenEstimator
    from sklearn.linear_model import LogisticRegression

    import baserate as br

    def saved(result: Any) -> Any:
        result.save(folder / "shift.json")
        return br.load(folder / "shift.json")

    y, x = np.array([0, 1, 1, 0, 0, 0]), np.arange(6.0)[:, None]
    frame = pd.DataFrame(
        {"id": range(6), "p_ill": P.astype("float32"), "name": list("abcdef"), "p_well": (1 - P).astype("float32")},
        index=list("uvwxyz"),
    )
    pd.DataFrame({"p": P, "y": y}).to_csv(folder / "one.csv", index=False)
    frame.to_parquet(folder / "both.parquet", index=False)
    return {
        "br": br,
        "np": np,
        "pd": pd,
        "pl": pl,
        "pa": pa,
        "frozen": br.AdjustedClassifier(FrozenEstimator(LogisticRegression().fit(x, y))),
        "folder": folder,
        "saved": saved,
        "p": P,
        "both": np.column_stack([1 - P, P]),
        "labels": np.column_stack([P, 1 - P]),
        "three": pd.DataFrame({"a": P / 2, "b": P / 2, "c": 1 - P}),
        "series": pd.Series(P, name="ill", index=list("uvwxyz")),
        "frame": frame,
        "arrow": pa.Table.from_pandas(frame, preserve_index=False),
        "y": y,
        "x": x,
    }


def outcome(code: str, names: dict[str, Any]) -> str:
    """What a call returns, in words; the error if it fails."""
    try:
        with warnings.catch_warnings(), contextlib.chdir(names["folder"]):
            warnings.simplefilter("ignore")
            return _command(code, names["folder"]) if code.startswith("baserate ") else described(eval(code, names))
    except Exception as error:  # what a user would see is what is recorded
        return f"{type(error).__name__}: {error}"


def described(value: Any) -> str:
    """The kind of a value, its shape, names and dtype, and the mean of its probabilities of the positive class."""
    library = type(value).__module__.split(".")[0].removeprefix("_")
    if isinstance(value, np.ndarray):
        return f"{value.dtype} array {value.shape}, {_mean(value)}"
    if isinstance(value, (pd.Series, pl.Series)):
        index = _index(value)
        return f"{library} Series {value.name!r} {value.dtype}{index}, {_mean(value)}"
    if isinstance(value, (pa.Array, pa.ChunkedArray)):
        return f"pyarrow {type(value).__name__} {value.type}, {_mean(value)}"
    if isinstance(value, (pd.DataFrame, pl.DataFrame, pa.Table)):
        columns = [str(name) for name in getattr(value, "column_names", value.columns)]
        positive = "p_ill" if "p_ill" in columns else columns[-1]
        chosen = value.iloc[:, -1] if isinstance(value, pd.DataFrame) and positive not in value else value[positive]
        return f"{library} {type(value).__name__} {' '.join(columns)}{_index(value)}, {_mean(chosen)}"
    plain = value is None or isinstance(value, tuple) or "Rates" in type(value).__name__
    return repr(value) if plain else type(value).__name__


def _index(value: Any) -> str:
    named = isinstance(value, (pd.Series, pd.DataFrame)) and list(value.index) == list("uvwxyz")
    return ", index u..z" if named else ""


def _mean(values: Any) -> str:
    numbers = np.asarray(values, dtype=np.float64)
    return f"mean {numbers.reshape(len(numbers), -1)[:, -1].mean():.4g}"


def _command(code: str, folder: Path) -> str:
    """Run a command, and describe the file that it wrote or what it printed."""
    command = [sys.executable, "-m", *code.split()]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"exit code {done.returncode}: {' '.join(done.stderr.split())}"
    if "--out" not in command:
        return "printed JSON" if "--json" in command and json.loads(done.stdout) else "printed"
    table = pd.read_csv(folder / command[command.index("--out") + 1])
    positive = "p" if "p" in table else "p_ill"
    return f"wrote {positive}: {_mean(table[positive])}"


def outcomes() -> list[str]:
    """What each call returns in this process."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        names = inputs(Path(folder))
        return [outcome(call.code, names) for call in (*PYTHON, *COMMANDS)]


def _outcomes_of(source: Path) -> list[str]:
    """What each call returns with the package in another folder."""
    environment = {**os.environ, "PYTHONPATH": str(source.resolve()), "MPLBACKEND": "agg"}
    command = [sys.executable, __file__, "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, metavar="DIR", help="folder with another version of the package")
    parser.add_argument("--json", action="store_true", help="print only the outcomes, as a JSON list")
    arguments = parser.parse_args()
    now = outcomes()
    if arguments.json:
        print(json.dumps(now))
        return
    columns = [[f"`{call.code}`" for call in (*PYTHON, *COMMANDS)]]
    heads = ["call", "returns"]
    if arguments.before is not None:
        columns.append([text[:150] for text in _outcomes_of(arguments.before)])
        heads = ["call", "before", "now"]
    print("| " + " | ".join(heads) + " |", "|---" * len(heads) + "|", sep="\n")
    for cells in zip(*columns, now, strict=True):
        print("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")


if __name__ == "__main__":
    main()
