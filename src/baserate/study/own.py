"""Your own predictions: Parquet or CSV files, each with the predictions of one model."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from baserate.arrays import FloatArray
from baserate.errors import BadFile, BadOption
from baserate.inputs import listed
from baserate.study.corpus import Corpus, Report
from baserate.study.runs import write_run


@dataclass(frozen=True)
class OwnFiles(Corpus):
    """Predictions in files.

    Attributes
    ----------
    files : tuple of str
        Parquet (``.parquet``) or CSV (``.csv``, ``.csv.gz``) files; each is a run under its own name.
    label : str
        The column with the true class.
    columns : tuple of str
        The columns with probabilities: a pattern such as ``p_*``, whose star stands for the class, or column names that
        are the classes.
    fold : str or None
        The column with the fold; without it a file is one prediction set.
    features : tuple of str or None
        Numeric columns for the covariate shift; by default all other numeric columns.
    """

    files: tuple[str, ...]
    label: str = "y"
    columns: tuple[str, ...] = ("p_*",)
    fold: str | None = None
    features: tuple[str, ...] | None = None
    name: str = field(default="own", init=False)

    def __post_init__(self) -> None:
        names = [_stem(Path(file)) for file in self.files]
        double = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        if double:
            raise BadOption(f"two files are named {listed(double)}; the name tells runs apart, so rename one")

    def settings(self) -> dict[str, Any]:
        stamps = {file: [Path(file).stat().st_size, Path(file).stat().st_mtime_ns] for file in self.files}
        return {
            "corpus": self.name,
            "files": stamps,
            "label": self.label,
            "columns": list(self.columns),
            "fold": self.fold,
            "features": None if self.features is None else list(self.features),
        }

    def collect(self, folder: Path, jobs: int, report: Report) -> list[Path]:
        paths = []
        for number, file in enumerate(map(Path, self.files)):
            paths.append(folder / f"{_stem(file)}.parquet")
            if not paths[-1].exists():
                self._convert(file, paths[-1])
            report(number + 1, len(self.files), file.name)
        return paths

    def _convert(self, file: Path, path: Path) -> None:
        table = _read(file)
        probability = _probability_columns(file, table.column_names, self.columns)
        labels = [_as_text(value) for value in _column(file, table, self.label).to_pylist()]
        strange = next((row for row, value in enumerate(labels) if value not in probability), None)
        if strange is not None:
            shown = "missing" if labels[strange] is None else repr(labels[strange])
            raise BadFile(
                f"{file}: the label in row {strange}, column {self.label!r}, is {shown}; "
                f"the classes are {listed(list(probability))}"
            )
        fold = np.zeros(len(table), dtype=int)
        if self.fold is not None:
            fold = np.unique(_column(file, table, self.fold).to_numpy(zero_copy_only=False), return_inverse=True)[1]
        write_run(
            path,
            dataset=_stem(file),
            model="own",
            fold=fold,
            y=[str(value) for value in labels],
            probs=np.column_stack([_floats(file, table, name) for name in probability.values()]),
            classes=list(probability),
            features={name: _floats(file, table, name) for name in self._features(file, table, probability.values())},
            source=file.name,
        )

    def _features(self, file: Path, table: Any, taken: Any) -> Sequence[str]:
        if self.features is not None:
            return self.features
        import pyarrow.types as pt

        used = {*taken, self.label, self.fold}
        numeric = (pt.is_integer, pt.is_floating, pt.is_decimal)
        return [one.name for one in table.schema if one.name not in used and any(test(one.type) for test in numeric)]


def _read(file: Path) -> Any:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    kinds = {".parquet": pq.read_table, ".csv": pyarrow.csv.read_csv, ".csv.gz": pyarrow.csv.read_csv}
    kind = next((kind for kind in kinds if file.name.lower().endswith(kind)), None)
    if kind is None:
        raise BadFile(f"{file} is neither a .parquet nor a .csv or .csv.gz file")
    try:
        table = kinds[kind](file)
    except FileNotFoundError:
        raise BadFile(f"there is no file {file}") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise BadFile(f"{file} cannot be read as {kind}: {error}") from None
    double = sorted({name for name in table.column_names if table.column_names.count(name) > 1})
    if double:
        raise BadFile(f"{file} has more than one column {listed(double)}")
    if not len(table):
        raise BadFile(f"{file} has no rows")
    return table


def _probability_columns(file: Path, names: Sequence[str], patterns: Sequence[str]) -> dict[str, str]:
    """Class to column."""
    found: dict[str, str] = {}
    for pattern in patterns:
        before, star, after = pattern.partition("*")
        matching = fnmatch.filter(names, pattern) if star else [name for name in names if name == pattern]
        if not matching:
            raise BadFile(f"{file} has no column {pattern!r}; its columns are {listed(names)}")
        for name in matching:
            found[name[len(before) : len(name) - len(after)] if star else name] = name
    if len(found) < 2:
        raise BadFile(f"{file}: {listed(patterns)} is one column only; there must be one a class")
    return found


def _column(file: Path, table: Any, name: str) -> Any:
    if name not in table.column_names:
        raise BadFile(f"{file} has no column {name!r}; its columns are {listed(table.column_names)}")
    return table[name]


def _floats(file: Path, table: Any, name: str) -> FloatArray:
    import pyarrow as pa

    try:
        return np.asarray(_column(file, table, name).cast(pa.float64()).to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid as error:
        raise BadFile(f"{file}: column {name!r} does not hold numbers: {error}") from None


def _as_text(value: Any) -> str | None:
    """A label as the class in a column name is written: 1.0 is "1"."""
    if value is None:
        return None
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _stem(file: Path) -> str:
    return file.name.removesuffix(".gz").rsplit(".", 1)[0]
