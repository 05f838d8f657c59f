"""Tables in files: Parquet, CSV, Arrow, NumPy; found, read in pieces, and written whole or not at all.

They need pyarrow, which is imported when a table is opened.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from baserate.errors import BadFile, BadOption, BadProbabilities
from baserate.inputs.columns import Choice, Columns, as_names
from baserate.inputs.validation import Naming, listed
from baserate.tables.dialect import Dialect

if TYPE_CHECKING:
    from baserate.tables.base import Part
    from baserate.tables.destination import Destination

__all__ = ["Dialect", "Files", "Table", "is_table"]


@dataclass(frozen=True)
class Files:
    """Files, and how to read and write them where that is not clear from the names.

    Parameters
    ----------
    where : path, list of paths, or pyarrow.dataset.Dataset
        A file, a folder, a glob, ``"-"`` for standard input, or several of them.
    delimiter : str, optional
        What sets the columns of CSV files apart; by default a comma, and a tab for ``.tsv``.
    decimal : str, default "."
        The decimal point of CSV files.
    pipe_format : str, optional
        "csv", "arrow" or "parquet", for what goes to standard output; by default that of the input.
    """

    where: Any
    delimiter: str | None = None
    decimal: str = "."
    pipe_format: str | None = None


def is_table(probs: object) -> bool:
    """Whether these are files: a path, a glob, a folder, several of them, or a dataset of pyarrow."""
    if isinstance(probs, (list, tuple)):
        return bool(probs) and all(isinstance(one, (str, os.PathLike)) for one in probs)
    return isinstance(probs, (str, os.PathLike, Files)) or any(
        kind.__module__ == "pyarrow._dataset" and kind.__name__ == "Dataset" for kind in type(probs).__mro__
    )


@dataclass(eq=False)
class Table:
    """Files that are opened.

    Attributes
    ----------
    parts : list of Part
    columns : Columns
        Those with probabilities.
    weight : str or None
        The column with weights.
    destination : Destination or None
        Where the adjusted rows go.
    """

    parts: list[Part]
    columns: Columns
    weight: str | None
    destination: Destination | None
    starts: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.starts = [0]
        for part in self.parts:
            self.starts.append(self.starts[-1] + part.n_rows)

    @classmethod
    def open(cls, where: Any, choice: Choice, *, weight: Any, out: Any) -> Table:
        """Find the files and their columns, and make them ready to be read often."""
        try:
            import pyarrow  # noqa: F401

            from baserate.tables.destination import Destination
            from baserate.tables.sources import find
        except ImportError as error:
            raise ImportError(f'tables in files need pyarrow: pip install "baserate[files]" ({error})') from None
        files = where if isinstance(where, Files) else Files(where)
        dialect = Dialect(files.delimiter, files.decimal).checked()
        parts = find(files.where, dialect, _member(choice))
        columns = _columns(parts[0], choice)
        _check_weight(weight, parts[0], columns)
        place = None if out is None else Destination(out, parts, dialect, files.pipe_format)
        numbers = [*columns.names, *([] if weight is None else [weight])]
        for part in parts:
            part.load(numbers, typed=place is not None and place.typed)
        parts[0].format.unify(parts)
        table = cls(parts, columns, weight, place)
        if place is not None:
            from baserate.tables.conversion import schemas_of

            place.check_columns(parts, schemas_of(table)[0], columns)
        if table.n_rows == 0:
            raise BadFile(f"{_called(parts)} no rows")
        return table

    @property
    def n_rows(self) -> int:
        """Rows of all parts."""
        return self.starts[-1]

    @property
    def naming(self) -> Naming:
        """What rows and columns are called."""
        names = self.columns.names
        called = (f"1 - {names[0]}", names[0]) if len(names) == 1 else names
        return RowsOfFiles(called, tuple(part.name for part in self.parts), tuple(self.starts))


@dataclass(frozen=True)
class RowsOfFiles(Naming):
    """Rows by file, each counted from 0."""

    files: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()

    def row(self, i: int) -> str:
        number = max(j for j, start in enumerate(self.starts[:-1]) if start <= i)
        return f"row {i - self.starts[number]} of {self.files[number]}"


def _member(choice: Choice) -> str | None:
    """The one name that was said where columns are chosen."""
    said = [choice.columns] if isinstance(choice.columns, str) else as_names(choice.columns or ())
    return said[0] if len(said) == 1 and "*" not in str(said[0]) else None


def _columns(part: Part, choice: Choice) -> Columns:
    if part.own is not None:
        return choice.in_order(part.own, part.name)
    names = part.schema.names
    columns = _one_of_two(names, choice) or choice.among(names, what=part.name)
    hidden = [name for name in columns.names if name in part.partition]
    if hidden:
        raise BadOption(f"{hidden[0]!r} is told by the folders of the files, and cannot be a column of probabilities")
    _check_numbers(part, columns.names)
    if len(columns.names) == 1 and choice.columns is None and not choice.ordered:
        raise BadOption(
            f"of the columns of {part.name}, {listed(names)}, only {columns.names[0]!r} is a class that the rates "
            "name; say which columns hold the probabilities: columns='p_*' (the star is the class), or their names"
        )
    if len(columns.names) == 1:  # P(fraud) alone: the rest is the other class
        only = (columns.classes or columns.names)[0]
        return Columns(columns.names, (f"not {only}", only))
    return columns


def _one_of_two(names: list[str], choice: Choice) -> Columns | None:
    """The one column that there is, if the classes are those of an adjustment that was fitted on one."""
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
        raise BadOption("sample_weight of files must be the name of a column with weights")
    if weight not in part.schema.names:
        raise BadOption(f"there is no column {weight!r} with weights in {part.name}: {listed(part.schema.names)}")
    if weight in columns.names:
        raise BadOption(f"column {weight!r} cannot hold both probabilities and weights")
    _check_numbers(part, [weight], "weights")


def _check_numbers(part: Part, names: Any, what: str = "probabilities") -> None:
    """Refuse columns whose type holds no numbers; those of CSV files are seen when they are parsed."""
    import pyarrow as pa

    if part.format.name == "CSV":
        return
    for name in names:
        kind = part.schema.field(name).type
        inner = kind.value_type if pa.types.is_dictionary(kind) else kind
        numeric = pa.types.is_floating(inner) or pa.types.is_integer(inner) or pa.types.is_decimal(inner)
        if not numeric and not pa.types.is_boolean(inner):
            hint = "; choose the columns with probabilities by columns=" if what == "probabilities" else ""
            raise BadProbabilities(f"column {name!r} of {part.name} holds {kind} values, not {what}{hint}")


def _called(parts: list[Part]) -> str:
    return f"{parts[0].name} has" if len(parts) == 1 else f"the {len(parts)} files have"
