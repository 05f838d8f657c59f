"""What every format of tables offers: parts that are read in pieces, and writers.

A *part* is one file. It is read in *pieces*, each by any thread and at any time, so that several are read at once and
no more than a few are in memory. A *format* opens parts and makes writers; a new one is one new file in this folder.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, NamedTuple

from baserate.errors import BadFile
from baserate.inputs.columns import Columns
from baserate.tables.dialect import Dialect

if TYPE_CHECKING:
    import pyarrow as pa

PIECE_BYTES = 64 << 20
"""A piece has at most about so many bytes, so that a few of them are no burden."""

BATCH_ROWS = 1 << 17
"""Rows that are taken out of a piece at a time."""


@contextlib.contextmanager
def reading(name: str) -> Iterator[None]:
    """Say which file it is that cannot be read."""
    import pyarrow as pa

    try:
        yield
    except UnicodeError as error:
        raise BadFile(f"{name} cannot be read: its name or its header is not text in UTF-8 ({error})") from None
    except (pa.ArrowException, OSError) as error:
        raise BadFile(f"{name} cannot be read: {error}") from None


class Piece(NamedTuple):
    """Some consecutive rows of a part."""

    n_rows: int
    read: Callable[[], Iterator[pa.RecordBatch]]


class Part(ABC):
    """One file.

    Attributes
    ----------
    name : str
        What to call it in messages.
    below : str
        Its path below the folder that was named, which its adjusted twin gets, too.
    format : Format
    schema : pyarrow.Schema
        Columns of the file, before :meth:`load` perhaps not with their final types.
    partition : dict
        Columns that only the path tells, ``country=DE``.
    own : Columns, optional
        The columns with probabilities, where the format leaves no choice.
    """

    name: str
    below: str
    format: Format
    schema: pa.Schema
    partition: dict[str, Any]
    own: Columns | None = None

    @property
    def only_here(self) -> list[str]:
        """What is in the file besides columns, so that only the same format can carry it."""
        return []

    def load(self, numbers: Sequence[str], *, typed: bool) -> None:  # noqa: B027  # most have nothing to do
        """Make ready to be read often. ``numbers`` must be numeric; ``typed`` asks for the types of the others."""

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Rows of the part, once it is loaded."""

    @property
    def nothing(self) -> Piece:
        """A piece without rows."""
        return Piece(0, lambda: iter(()))

    @abstractmethod
    def pieces(self, columns: Sequence[str] | None) -> Iterator[Piece]:
        """The rows, in their order; of these columns or of all."""


class Writer(ABC):
    """Writes one file."""

    @abstractmethod
    def write(self, table: pa.Table) -> None:
        """Write the rows of a piece."""

    @abstractmethod
    def close(self) -> None:
        """Write what is left; the file itself is closed by who opened it."""

    def abandon(self) -> None:  # noqa: B027  # most have nothing to do
        """Forget the file, which will be removed."""


class Format(ABC):
    """A kind of file.

    Attributes
    ----------
    name : str
    suffixes : tuple of str
        Ends of file names, with the dot.
    magic : tuple of bytes
        How such a file begins, where that can be said.
    """

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]
    magic: ClassVar[tuple[bytes, ...]] = ()

    @abstractmethod
    def part(self, source: Source, dialect: Dialect, member: str | None) -> Part:
        """Open a file; ``member`` is the one name that was said where columns are chosen, if it was one."""

    def unify(self, parts: Sequence[Part]) -> None:  # noqa: B027  # most have nothing to do
        """Give columns whose types were guessed the same types in all parts."""

    @abstractmethod
    def writer(self, file: BinaryIO, schema: pa.Schema, like: Part, rows: Rows) -> Writer:
        """A writer that follows the example of a part where that has the same format."""

    def refuses(self, schema: pa.Schema, like: Part, rows: Rows) -> str | None:
        """Why such a file cannot hold these columns, or None if it can."""
        return None


class Source(NamedTuple):
    """A file to open.

    Attributes
    ----------
    name, below : str
        See :class:`Part`.
    open : callable
        Opens the file for reading, at its beginning; each call gives an independent reader.
    partition : dict
    path : str, optional
        Where it is, if it is a plain file of this machine.
    """

    name: str
    below: str
    open: Callable[[], Any]
    partition: dict[str, Any]
    path: str | None = None


class Rows(NamedTuple):
    """What will be written, and the name of the file."""

    name: str
    n_rows: int
    columns: Columns
    dialect: Dialect
