"""Your own predictions: Parquet or CSV files, each with the predictions of one model."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from baserate.errors import BadFile, BadOption
from baserate.inputs.validation import listed
from baserate.progress import Progress
from baserate.study.corpus import Corpus
from baserate.study.runs import label_text, write_run
from baserate.support.arrays import FloatArray, IndexArray


@dataclass(frozen=True)
class OwnFiles(Corpus):
    """Predictions in files.

    Attributes
    ----------
    files : tuple of str
        Parquet (``.parquet``) or CSV (``.csv``, ``.csv.gz``) files; each is a run, under its own name.
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
        names = [_stem(Path(file)).casefold() for file in self.files]  # not all disks tell A from a
        double = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        if double:
            raise BadOption(f"two files are named {listed(double)}; the name tells runs apart, so rename one")
        for pattern in self.columns:
            if pattern.count("*") > 1:
                raise BadOption(f"the pattern {pattern!r} has more than one star; the one star stands for the class")

    def settings(self) -> dict[str, Any]:
        return {
            "corpus": self.name,
            "files": self._contents,
            "label": self.label,
            "columns": list(self.columns),
            "fold": self.fold,
            "features": None if self.features is None else list(self.features),
        }

    @cached_property
    def _contents(self) -> dict[str, str]:
        return {_stem(Path(file)): _hash(Path(file)) for file in self.files}

    def collect(self, folder: Path, jobs: int, progress: Progress) -> list[Path]:
        paths = []
        progress.begin("converting predictions", len(self.files))
        for file in map(Path, self.files):
            paths.append(folder / f"{_stem(file)}.parquet")
            if not paths[-1].exists():
                self._convert(_Table(file, _read(file, self.label)), paths[-1])
            progress.note(file.name)
            progress.rows(1)
        return paths

    def _convert(self, table: _Table, path: Path) -> None:
        probability = self._probability_columns(table)
        write_run(
            path,
            dataset=_stem(table.file),
            model=_stem(table.file),
            fold=np.zeros(len(table), dtype=int) if self.fold is None else table.numbered(self.fold),
            y=table.labels(self.label, list(probability)),
            probs=np.column_stack([table.floats(name) for name in probability.values()]),
            classes=list(probability),
            features={name: table.floats(name) for name in self._features(table, set(probability.values()))},
            source=table.file.name,
        )

    def _probability_columns(self, table: _Table) -> dict[str, str]:
        """Class to column."""
        found: dict[str, str] = {}
        names = [name for name in table.names if name not in (self.label, self.fold)]
        for pattern in self.columns:
            before, star, after = pattern.partition("*")
            fits = re.compile(re.escape(before) + ("(.*)" if star else "()") + re.escape(after), re.DOTALL)
            matching = [name for name in names if fits.fullmatch(name)]
            if not matching:
                raise BadFile(f"{table.file} has no column {pattern!r}; its columns are {listed(table.names)}")
            for name in matching:
                known = name[len(before) : len(name) - len(after)] if star else name
                if not known:
                    raise BadFile(
                        f"{table.file}: in column {name!r} the star of {pattern!r} leaves no name for the class"
                    )
                if known in found:
                    raise BadFile(
                        f"{table.file}: the columns {found[known]!r} and {name!r} are both of class {known!r}"
                    )
                found[known] = name
        if len(found) < 2:
            raise BadFile(f"{table.file}: {listed(self.columns)} is one column only; there must be one a class")
        return found

    def _features(self, table: _Table, taken: set[str]) -> Sequence[str]:
        if self.features is not None:
            return self.features
        return [name for name in table.numeric() if name not in {*taken, self.label, self.fold}]


class _Table:
    """The columns of a file, and what is wrong with them if anything is."""

    def __init__(self, file: Path, table: Any) -> None:
        self.file, self._table = file, table
        self.names: list[str] = table.column_names

    def __len__(self) -> int:
        return len(self._table)

    def numeric(self) -> list[str]:
        """Names of the columns that hold numbers."""
        import pyarrow.types as pt

        kinds = (pt.is_integer, pt.is_floating, pt.is_decimal)
        return [one.name for one in self._table.schema if any(is_kind(one.type) for is_kind in kinds)]

    def floats(self, name: str) -> FloatArray:
        import pyarrow as pa

        try:
            # Not safe: a feature of 2**60 need not be exact.
            values = self._column(name).cast(pa.float64(), safe=False)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise BadFile(f"{self.file}: column {name!r} does not hold numbers: {error}") from None
        return np.asarray(values.to_numpy(zero_copy_only=False))

    def labels(self, name: str, classes: list[str]) -> list[str]:
        """Classes of the rows; a number is taken for a class that is written like it."""
        values, codes = self._encoded(name)
        known = [next((text for text in _spellings(value) if text in classes), "") for value in values]
        strange = [code for code, text in enumerate(known) if not text]
        if strange:
            row = int(np.argmax(np.isin(codes, strange)))
            where = f"{self.file}: the label in row {row}, column {name!r},"
            value = values[codes[row]]
            shown = repr(value) if value not in (None, "") else "missing"
            raise BadFile(f"{where} is {shown}; the classes are {listed(classes)}")
        return [known[code] for code in codes]

    def numbered(self, name: str) -> IndexArray:
        """The distinct values of a column, numbered in their order."""
        values, codes = self._encoded(name)
        missing = [code for code, value in enumerate(values) if value is None or value == "" or value != value]
        if missing:
            row = int(np.argmax(np.isin(codes, missing)))
            raise BadFile(f"{self.file}: the fold in row {row}, column {name!r}, is missing")
        order = np.argsort(np.array([str(value).rjust(20) for value in values]), kind="stable")
        return np.argsort(order)[codes]

    def _encoded(self, name: str) -> tuple[list[Any], IndexArray]:
        """Distinct values of a column, None if any is missing, and which of them each row has."""
        import pyarrow as pa

        column = self._column(name).combine_chunks()
        try:
            if pa.types.is_dictionary(column.type):  # it may list values that no row has
                column = column.cast(column.type.value_type)
            column = column.dictionary_encode(null_encoding="encode")
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise BadFile(f"{self.file}: column {name!r} does not hold single values: {error}") from None
        return column.dictionary.to_pylist(), column.indices.to_numpy().astype(np.intp)

    def _column(self, name: str) -> Any:
        if name not in self.names:
            raise BadFile(f"{self.file} has no column {name!r}; its columns are {listed(self.names)}")
        return self._table[name]


def _read(file: Path, label: str) -> Any:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    # Labels of a CSV file as they are written: 001 is not 1, and true is not True.
    as_written = pyarrow.csv.ConvertOptions(column_types={label: pa.string()})

    def read_csv(path: Path) -> Any:
        return pyarrow.csv.read_csv(path, convert_options=as_written)

    kinds = {".parquet": pq.read_table, ".csv": read_csv, ".csv.gz": read_csv}
    kind = next((kind for kind in kinds if file.name.lower().endswith(kind)), None)
    if kind is None:
        raise BadFile(f"{file} is neither a .parquet nor a .csv or .csv.gz file")
    try:
        table = kinds[kind](file)
    except (pa.ArrowInvalid, OSError) as error:
        raise BadFile(f"{file} cannot be read as {kind}: {error}") from None
    double = sorted({name for name in table.column_names if table.column_names.count(name) > 1})
    if double:
        raise BadFile(f"{file} has more than one column {listed(double)}")
    if not len(table):
        raise BadFile(f"{file} has no rows")
    return table


def _hash(file: Path) -> str:
    """What tells a file from another: its content, wherever it lies."""
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise BadFile(f"{file} cannot be read: {error.strerror}") from None


def _spellings(value: Any) -> list[str]:
    """How a label may be written as a class: as it is, 1.0 as 1, and a boolean in small letters, too."""
    if value is None:
        return []
    if isinstance(value, bool):
        return [str(value), str(value).lower(), str(int(value))]
    try:
        return [str(value), label_text(value), label_text(float(value)), str(float(value))]
    except (TypeError, ValueError):
        return [str(value), label_text(value)]


def _stem(file: Path) -> str:
    return file.name.removesuffix(".gz").rsplit(".", 1)[0]
