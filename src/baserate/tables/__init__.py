"""Tables in files: Parquet, CSV, Arrow and NumPy. They are read in pieces, and written completely or not at all.

Tables need pyarrow, which is imported when a table is opened.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from baserate.errors import BadFile, BadOption, BadProbabilities
from baserate.inputs.columns import COLUMN_LIST, COLUMN_PATTERN, SELECT_COLUMNS, Columns, ColumnSelection, as_names
from baserate.inputs.reading import Naming
from baserate.inputs.validation import quoted, quoted_name
from baserate.tables.arrow_rows import ArrowRows
from baserate.tables.dialect import Dialect

if TYPE_CHECKING:
    import pyarrow as pa

    from baserate.tables.base import CodedColumn, Part
    from baserate.tables.destination import Destination

__all__ = ["ArrowRows", "Dialect", "Files", "Table", "is_table"]


@dataclass(frozen=True)
class Files:
    """Files, with options for reading and writing that do not follow from their names.

    Parameters
    ----------
    where : path, list of paths, or pyarrow.dataset.Dataset
        A file, a folder, a glob pattern, ``"-"`` for standard input, or a list of paths. Paths can be URLs.
    delimiter : str, optional
        Delimiter of CSV files. By default a comma, and a tab for ``.tsv``.
    decimal : str, default "."
        Decimal point of CSV files.
    pipe_format : str, optional
        "csv", "arrow" or "parquet": the format for standard output. By default CSV for CSV input, else Arrow.
    """

    where: Any
    delimiter: str | None = None
    decimal: str = "."
    pipe_format: str | None = None


def is_table(probs: object) -> bool:
    """Whether the predictions are in files: a path, a list of paths, :class:`Files`, or a pyarrow dataset."""
    if isinstance(probs, (list, tuple)):
        return bool(probs) and all(isinstance(one, (str, os.PathLike)) for one in probs)
    return isinstance(probs, (str, os.PathLike, Files)) or any(
        kind.__module__ == "pyarrow._dataset" and kind.__name__ == "Dataset" for kind in type(probs).__mro__
    )


@dataclass(eq=False)
class Table:
    """One or more opened files.

    Attributes
    ----------
    parts : list of Part
        The files.
    columns : Columns
        The columns with probabilities.
    weight : str or None
        The column with row weights.
    destination : Destination or None
        Where the adjusted rows are written.
    dtype : numpy.dtype or None
        The dtype of the adjusted columns; None if each keeps its own.
    starts : list of int
        For each part, the number of rows before it. The last entry is the number of all rows.
    """

    parts: list[Part]
    columns: Columns
    weight: str | None
    destination: Destination | None
    dtype: np.dtype[Any] | None = None
    starts: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.starts = [0]
        for part in self.parts:
            self.starts.append(self.starts[-1] + part.n_rows)

    @classmethod
    def open(
        cls,
        where: Any,
        choice: ColumnSelection,
        *,
        weight: Any,
        others: Mapping[str, str],
        out: Any,
        dtype: np.dtype[Any] | None = None,
    ) -> Table:
        """Find the files and their columns, and prepare the files for repeated reading.

        Parameters
        ----------
        where : Files, path, list of paths, or pyarrow.dataset.Dataset
        choice : ColumnSelection
            Which columns hold the probabilities.
        weight : str or None
            The column with row weights.
        others : dict
            Further columns that will be read, by what they contain, such as ``{"labels": "y"}``.
        out : path or None
            Where to write the adjusted rows.
        dtype : numpy.dtype, optional
            The dtype of the adjusted columns. By default each keeps its own.
        """
        try:
            import pyarrow  # noqa: F401  # tests whether it is installed

            from baserate.tables.destination import Destination
            from baserate.tables.sources import find_parts
        except ImportError as error:
            raise ImportError(f'tables in files need pyarrow: pip install "baserate[files]" ({error})') from None
        files = where if isinstance(where, Files) else Files(where)
        dialect = Dialect(files.delimiter, files.decimal).validated()
        parts = find_parts(files.where, dialect, _single_name(choice))
        columns = _select_columns(parts[0], choice)
        _check_weight(weight, parts[0], columns)
        for what, name in others.items():
            _check_other(name, what, parts, columns)
        destination = None if out is None else Destination(out, files.where, parts, dialect, files.pipe_format)
        numeric = [*columns.names, *([] if weight is None else [weight])]
        for part in parts:
            part.prepare(numeric, infer_types=destination is not None and destination.typed)
        parts[0].format.unify_types(parts)
        table = cls(parts, columns, weight, destination, dtype)
        if destination is not None:
            from baserate.tables.conversion import output_schemas

            destination.check_columns(parts, output_schemas(table)[0], columns)
        if table.n_rows == 0:
            raise BadFile(f"{parts[0].name} has no rows" if len(parts) == 1 else f"the {len(parts)} files have no rows")
        return table

    @property
    def n_rows(self) -> int:
        """Number of rows in all parts."""
        return self.starts[-1]

    def read_column(self, name: str) -> CodedColumn:
        """The values of another column, in the order of the rows."""
        from baserate.tables.conversion import coded_column

        return coded_column(self.parts, name)

    @property
    def naming(self) -> Naming:
        """Names of rows and columns for messages."""
        names = self.columns.names
        column_names = (f"1 - {names[0]}", names[0]) if len(names) == 1 else names
        return FileNaming(column_names, tuple(part.name for part in self.parts), tuple(self.starts))


UNNUMBERED = -(1 << 62)
"""Number of the first of some rows whose place in their file is not known, so that messages name no number."""


@dataclass(frozen=True)
class FileNaming(Naming):
    """Names rows by file and by their number within the file, counted from 0."""

    files: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()

    def row(self, i: int) -> str:
        if i < 0:
            return f"a row of {self.files[0]}"
        number = max(j for j, start in enumerate(self.starts[:-1]) if start <= i)
        return f"row {i - self.starts[number]} of {self.files[number]}"


def distinct_values(where: Any, name: str, what: str) -> list[Any]:
    """The distinct values of a column of files, such as labels, before it is known which columns hold probabilities."""
    from baserate.tables.conversion import coded_column
    from baserate.tables.sources import find_parts

    files = where if isinstance(where, Files) else Files(where)
    parts = find_parts(files.where, Dialect(files.delimiter, files.decimal).validated(), None)
    _check_other(name, what, parts, Columns((), None))
    for part in parts:
        part.prepare([], infer_types=False)
    return list(coded_column(parts, name).values)


class FirstRows(NamedTuple):
    """The first rows of files, and what is known without reading the rest.

    Attributes
    ----------
    rows : pyarrow.Table
        Columns of CSV files are text.
    format : str
        Name of the format.
    selectable : bool
        Whether the columns with probabilities can be selected. They cannot in files with one matrix.
    """

    rows: pa.Table
    format: str
    selectable: bool


def first_rows(where: Any, n_rows: int) -> FirstRows:
    """The first rows of files, with all columns."""
    from baserate.tables.sources import find_parts

    files = where if isinstance(where, Files) else Files(where)
    part = find_parts(files.where, Dialect(files.delimiter, files.decimal).validated(), None)[0]
    return FirstRows(part.first_rows(n_rows), part.format.name, part.fixed_columns is None)


def _single_name(choice: ColumnSelection) -> str | None:
    """The option ``columns`` if it is one name and not a pattern."""
    names = [choice.columns] if isinstance(choice.columns, str) else as_names(choice.columns or ())
    return names[0] if len(names) == 1 and "*" not in str(names[0]) else None


def _select_columns(part: Part, choice: ColumnSelection) -> Columns:
    if part.fixed_columns is not None:
        return choice.in_order(part.fixed_columns, part.name)
    names = part.schema.names
    columns = _column_of_positive_class(names, choice) or choice.among(names, what=part.name)
    in_path = [name for name in columns.names if name in part.partition]
    if in_path:
        raise BadOption(
            f"{quoted_name(in_path[0])} is encoded in names of folders, so it cannot be a column of probabilities"
        )
    _check_numeric(part, columns.names)
    named_exactly = choice.named is not None and columns.names[0] in choice.named
    if len(columns.names) == 1 and choice.columns is None and not choice.ordered and named_exactly and len(names) > 1:
        raise BadOption(
            f"{part.name} has the columns {quoted(names)}; only {quoted_name(columns.names[0])} is a class that "
            f"the rates name. {SELECT_COLUMNS}",
            options=[COLUMN_PATTERN, COLUMN_LIST],
        )
    if len(columns.names) == 1:  # For example only P(fraud): the other class gets the remaining probability.
        only = (columns.classes or columns.names)[0]
        return Columns(columns.names, (f"not {only}", only))
    return columns


def _column_of_positive_class(names: list[str], choice: ColumnSelection) -> Columns | None:
    """The column of class "x" if the adjustment was fitted on a single column and has the classes "not x" and "x"."""
    if not choice.ordered or choice.named is None or len(choice.named) != 2 or choice.named[0] in names:
        return None
    other, only = choice.named
    if other != f"not {only}":
        return None
    found = choice._replace(named=(only,), ordered=False).among(names, what="the table")
    at = found.classes.index(only) if found.classes is not None and only in found.classes else 0
    return Columns(found.names[at : at + 1], (only,))


def _check_weight(weight: Any, part: Part, columns: Columns) -> None:
    if weight is None:
        return
    if not isinstance(weight, str):
        raise BadOption(f"sample_weight must be the name of a column of {part.name}, not a {type(weight).__name__}")
    if weight not in part.schema.names:
        raise BadOption(
            f"{part.name} has no column {quoted_name(weight)} with weights; its columns are {quoted(part.schema.names)}"
        )
    if weight in columns.names:
        raise BadOption(f"column {quoted_name(weight)} cannot contain both probabilities and weights")
    _check_numeric(part, [weight], "weights")


def _check_other(name: str, what: str, parts: Sequence[Part], columns: Columns) -> None:
    """Raise if a further column is missing, or cannot have such contents."""
    import pyarrow as pa

    first = parts[0]
    if name in columns.names:
        raise BadOption(f"column {quoted_name(name)} cannot contain both probabilities and {what}")
    if name in first.schema.names:
        kind = first.schema.field(name).type
        if pa.types.is_nested(kind):
            raise BadOption(f"column {quoted_name(name)} of {first.name} contains {kind} values, not {what}")
        return
    without = next((part for part in parts if name not in part.partition), None)
    if without is not None:
        names = [*without.schema.names, *without.partition]
        raise BadOption(
            f"{without.name} has no column {quoted_name(name)} with {what}; its columns are {quoted(names)}"
        )


def _check_numeric(part: Part, names: Any, what: str = "probabilities") -> None:
    """Raise if the type of a column is not numeric. Columns of CSV files are checked when they are parsed."""
    import pyarrow as pa

    if part.format.name == "CSV":
        return
    for name in names:
        kind = part.schema.field(name).type
        inner = kind.value_type if pa.types.is_dictionary(kind) else kind
        if (
            pa.types.is_floating(inner)
            or pa.types.is_integer(inner)
            or pa.types.is_decimal(inner)
            or pa.types.is_boolean(inner)
        ):
            continue
        problem = f"column {quoted_name(name)} of {part.name} contains {kind} values, not {what}"
        if what != "probabilities":
            raise BadProbabilities(problem)
        raise BadProbabilities(
            f"{problem}; select the columns with probabilities by {COLUMN_LIST}", options=[COLUMN_LIST]
        )
