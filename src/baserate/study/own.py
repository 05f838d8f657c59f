"""A corpus of your own predictions: Parquet or CSV files, each with the predictions of one model."""

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
from baserate.inputs.validation import quoted
from baserate.progress import Progress
from baserate.study.corpus import Corpus
from baserate.study.runs import label_text, write_run
from baserate.support.arrays import FloatArray, IndexArray


@dataclass(frozen=True)
class OwnFiles(Corpus):
    """Predictions from files.

    Attributes
    ----------
    files : tuple of str
        Parquet (``.parquet``) or CSV (``.csv``, ``.csv.gz``) files. Each file is one run, named after the file.
    label : str
        The column with the true class.
    columns : tuple of str
        The columns with probabilities: a pattern such as ``p_*``, where ``*`` matches the class name, or column names
        that equal the class names.
    fold : str or None
        The column with the fold. By default a file is one prediction set.
    features : tuple of str or None
        Numeric columns for the covariate shift. By default all other numeric columns.
    """

    files: tuple[str, ...]
    label: str = "y"
    columns: tuple[str, ...] = ("p_*",)
    fold: str | None = None
    features: tuple[str, ...] | None = None
    name: str = field(default="own", init=False)

    def __post_init__(self) -> None:
        names = [_stem(Path(file)).casefold() for file in self.files]  # some file systems ignore case
        repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        if repeated:
            raise BadOption(
                f"two files are named {quoted(repeated)}; rename one, since runs are named after their files"
            )
        for pattern in self.columns:
            if pattern.count("*") > 1:
                raise BadOption(
                    f"the pattern {pattern!r} has more than one star; use one, which matches the class name"
                )

    def settings(self) -> dict[str, Any]:
        return {
            "corpus": self.name,
            "files": self._hashes,
            "label": self.label,
            "columns": list(self.columns),
            "fold": self.fold,
            "features": None if self.features is None else list(self.features),
        }

    @cached_property
    def _hashes(self) -> dict[str, str]:
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
        """The probability column of each class."""
        found: dict[str, str] = {}
        names = [name for name in table.names if name not in (self.label, self.fold)]
        for pattern in self.columns:
            before, star, after = pattern.partition("*")
            regex = re.compile(re.escape(before) + ("(.*)" if star else "()") + re.escape(after), re.DOTALL)
            matching = [name for name in names if regex.fullmatch(name)]
            if not matching:
                raise BadFile(f"{table.file} has no column {pattern!r}; its columns are {quoted(table.names)}")
            for name in matching:
                class_name = name[len(before) : len(name) - len(after)] if star else name
                if not class_name:
                    raise BadFile(
                        f"{table.file}: in column {name!r} the star of {pattern!r} matches an empty class name"
                    )
                if class_name in found:
                    raise BadFile(
                        f"{table.file}: columns {found[class_name]!r} and {name!r} both belong to class {class_name!r}"
                    )
                found[class_name] = name
        if len(found) < 2:
            raise BadFile(f"{table.file}: {quoted(self.columns)} is only one column; pass one column per class")
        return found

    def _features(self, table: _Table, probability_columns: set[str]) -> Sequence[str]:
        if self.features is not None:
            return self.features
        return [name for name in table.numeric() if name not in {*probability_columns, self.label, self.fold}]


class _Table:
    """The columns of a file. Its methods raise BadFile with the file, column and row of an invalid value."""

    def __init__(self, file: Path, table: Any) -> None:
        self.file, self._table = file, table
        self.names: list[str] = table.column_names

    def __len__(self) -> int:
        return len(self._table)

    def numeric(self) -> list[str]:
        """Names of the numeric columns."""
        import pyarrow.types as pt

        kinds = (pt.is_integer, pt.is_floating, pt.is_decimal)
        return [one.name for one in self._table.schema if any(is_kind(one.type) for is_kind in kinds)]

    def floats(self, name: str) -> FloatArray:
        import pyarrow as pa

        try:
            # Not safe=True: it rejects integers above 2**53, such as ids, which need not be exact here.
            values = self._column(name).cast(pa.float64(), safe=False)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise BadFile(f"{self.file}: column {name!r} does not contain numbers: {error}") from None
        return np.asarray(values.to_numpy(zero_copy_only=False))

    def labels(self, name: str, classes: list[str]) -> list[str]:
        """The class name of each row; a numeric label matches a class name such as "1"."""
        values, codes = self._encoded(name)
        known = [next((text for text in _spellings(value) if text in classes), "") for value in values]
        unknown = [code for code, text in enumerate(known) if not text]
        if unknown:
            row = int(np.argmax(np.isin(codes, unknown)))
            where = f"{self.file}: the label in row {row}, column {name!r},"
            value = values[codes[row]]
            shown = repr(value) if value not in (None, "") else "missing"
            raise BadFile(f"{where} is {shown}; the classes are {quoted(classes)}")
        return [known[code] for code in codes]

    def numbered(self, name: str) -> IndexArray:
        """The rank of each value among the sorted distinct values of a column."""
        values, codes = self._encoded(name)
        missing = [code for code, value in enumerate(values) if value is None or value == "" or value != value]
        if missing:
            row = int(np.argmax(np.isin(codes, missing)))
            raise BadFile(f"{self.file}: the fold in row {row}, column {name!r}, is missing")
        order = np.argsort(np.array([str(value).rjust(20) for value in values]), kind="stable")
        return np.argsort(order)[codes]

    def _encoded(self, name: str) -> tuple[list[Any], IndexArray]:
        """The distinct values of a column, with None for a missing value, and the position of each row's value."""
        import pyarrow as pa

        column = self._column(name).combine_chunks()
        try:
            if pa.types.is_dictionary(column.type):  # its dictionary may contain values that no row has
                column = column.cast(column.type.value_type)
            column = column.dictionary_encode(null_encoding="encode")
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise BadFile(f"{self.file}: column {name!r} does not contain single values: {error}") from None
        return column.dictionary.to_pylist(), column.indices.to_numpy().astype(np.intp)

    def _column(self, name: str) -> Any:
        if name not in self.names:
            raise BadFile(f"{self.file} has no column {name!r}; its columns are {quoted(self.names)}")
        return self._table[name]


def _read(file: Path, label: str) -> Any:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    # Labels of CSV files stay text: pyarrow would turn 001 into 1 and true into a boolean.
    labels_as_text = pyarrow.csv.ConvertOptions(column_types={label: pa.string()})

    def read_csv(path: Path) -> Any:
        return pyarrow.csv.read_csv(path, convert_options=labels_as_text)

    kinds = {".parquet": pq.read_table, ".csv": read_csv, ".csv.gz": read_csv}
    kind = next((kind for kind in kinds if file.name.lower().endswith(kind)), None)
    if kind is None:
        raise BadFile(f"{file} is not a .parquet, .csv or .csv.gz file; convert it to one of these")
    try:
        table = kinds[kind](file)
    except (pa.ArrowInvalid, OSError) as error:
        raise BadFile(f"{file} cannot be read as {kind}: {error}") from None
    repeated = sorted({name for name in table.column_names if table.column_names.count(name) > 1})
    if repeated:
        raise BadFile(f"{file} has more than one column {quoted(repeated)}; rename or remove the extra columns")
    if not len(table):
        raise BadFile(f"{file} has no rows")
    return table


def _hash(file: Path) -> str:
    """A hash of the content of a file."""
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise BadFile(f"{file} cannot be read: {error.strerror}") from None


def _spellings(value: Any) -> list[str]:
    """The class names that a label matches: its own text, "1" for 1.0, and "true" for True."""
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
