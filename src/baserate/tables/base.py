"""Base classes of the file formats.

A *part* is one file. It is read in *pieces*: several threads read different pieces at once, and only a few pieces are
in memory at a time. A *format* opens parts and creates writers. A new format is one new module in this package, listed
in :mod:`baserate.tables.formats`.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, NamedTuple

from baserate.errors import BadFile
from baserate.inputs.columns import Columns
from baserate.support.arrays import IndexArray
from baserate.tables.dialect import Dialect

if TYPE_CHECKING:
    import pyarrow as pa

PIECE_BYTES = 32 << 20
"""Approximate maximum size of a piece, so that several pieces fit into memory.

A piece that is adjusted is in memory several times: as it was read, as arrays, and as it is written.
"""

BATCH_ROWS = 1 << 17
"""Rows per record batch of a piece."""


@contextlib.contextmanager
def name_file_in_errors(name: str) -> Iterator[None]:
    """Turn errors of pyarrow and of the operating system into a BadFile error that names the file."""
    import pyarrow as pa

    try:
        yield
    except UnicodeError as error:
        raise BadFile(
            f"{name} cannot be read: its name or its header is not UTF-8 text ({error}); convert it to UTF-8"
        ) from None
    except (pa.ArrowException, OSError) as error:
        raise BadFile(f"{name} cannot be read: {error}") from None


class CodedColumn(NamedTuple):
    """A column of any type, as the different values that it has.

    Attributes
    ----------
    values : list
        The different values. Bytes, as in CSV files, are decoded to text.
    codes : int array of shape (n,)
        Position of the value of each row in ``values``; -1 where it is missing, NaN or empty text.
    """

    values: list[Any]
    codes: IndexArray


class Piece(NamedTuple):
    """Some consecutive rows of a part, which can be read more than once."""

    n_rows: int
    read: Callable[[], Iterator[pa.RecordBatch]]


class Part(ABC):
    """One file.

    Attributes
    ----------
    name : str
        Name of the file for messages.
    relative_path : str
        Path relative to the input folder. The adjusted file has the same path relative to the output folder.
    format : Format
    schema : pyarrow.Schema
        Columns of the file. Their types may change in :meth:`prepare`.
    partition : dict
        Columns that are encoded in the path, such as ``country=DE``.
    fixed_columns : Columns, optional
        The columns with probabilities, for formats in which they cannot be chosen.
    """

    name: str
    relative_path: str
    format: Format
    schema: pa.Schema
    partition: dict[str, Any]
    fixed_columns: Columns | None = None

    @property
    def files(self) -> Sequence[str]:
        """The paths and URLs of the files that are read, as far as they are known."""
        return (self.name,)

    @property
    def files_are_known(self) -> bool:
        """Whether no other files than :attr:`files` are read."""
        return True

    @property
    def format_specific(self) -> list[str]:
        """Names of contents other than columns, which only a file of the same format can hold."""
        return []

    def prepare(self, numeric: Sequence[str], *, infer_types: bool) -> None:
        """Prepare the file for repeated reading.

        Parameters
        ----------
        numeric : sequence of str
            Columns that must contain numbers.
        infer_types : bool
            Whether types are inferred for the other columns of a text file.
        """
        return

    def first_rows(self, n_rows: int) -> pa.Table:
        """The first rows with all columns. Does not read the whole file, and :meth:`prepare` need not be called."""
        import pyarrow as pa

        batches = next(iter(self.pieces(None)), self.nothing).read()
        first = next(iter(batches), None)
        return self.schema.empty_table() if first is None else pa.Table.from_batches([first.slice(0, n_rows)])

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of rows. Available after :meth:`prepare`."""

    @property
    def nothing(self) -> Piece:
        """A piece without rows."""
        return Piece(0, lambda: iter(()))

    @abstractmethod
    def pieces(self, columns: Sequence[str] | None) -> Iterator[Piece]:
        """The rows in order, with the given columns or with all."""


class Writer(ABC):
    """Writes one file."""

    @abstractmethod
    def write(self, table: pa.Table) -> None:
        """Write the rows of a piece."""

    @abstractmethod
    def close(self) -> None:
        """Write what is still missing. The caller closes the file itself."""

    def abandon(self) -> None:
        """Release resources after an error. The caller removes the file."""
        return


class Format(ABC):
    """A file format.

    Attributes
    ----------
    name : str
    suffixes : tuple of str
        Suffixes of file names, with the dot.
    magic : tuple of bytes
        Byte sequences with which files of this format begin. Empty if there is no such sequence.
    """

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]
    magic: ClassVar[tuple[bytes, ...]] = ()

    @abstractmethod
    def open_part(self, source: Source, dialect: Dialect, array_name: str | None) -> Part:
        """Open a file.

        Parameters
        ----------
        source : Source
        dialect : Dialect
            Delimiter and decimal point of text files.
        array_name : str or None
            The option ``columns`` if it is a single name. It selects the matrix of an NPZ file.
        """

    def unify_types(self, parts: Sequence[Part]) -> None:
        """Give columns with inferred types the same type in all parts."""
        return

    @abstractmethod
    def writer(self, file: BinaryIO, schema: pa.Schema, template: Part, output: OutputFile) -> Writer:
        """A writer that uses the settings of ``template``, such as its compression, if it has the same format."""

    def unsupported_reason(self, schema: pa.Schema, template: Part, output: OutputFile) -> str | None:
        """Why a file of this format cannot hold these columns, or None if it can."""
        return None


class Source(NamedTuple):
    """A file that has not been opened yet.

    Attributes
    ----------
    name, relative_path : str
        See :class:`Part`.
    open : callable
        Opens the file for reading at its beginning. Each call returns an independent reader.
    partition : dict
    path : str, optional
        Path of the file, if it is a regular file on this machine.
    is_remote : bool
        Whether each read is a request to another machine.
    """

    name: str
    relative_path: str
    open: Callable[[], Any]
    partition: dict[str, Any]
    path: str | None = None
    is_remote: bool = False


class OutputFile(NamedTuple):
    """Name and contents of a file that will be written."""

    name: str
    n_rows: int
    columns: Columns
    dialect: Dialect
