"""Delimiter and decimal point of CSV files."""

from __future__ import annotations

from typing import NamedTuple

from baserate.errors import BadOption, Option

_SEMICOLON = Option("delimiter", "';'")


class Dialect(NamedTuple):
    """Delimiter and decimal point of CSV files.

    Attributes
    ----------
    delimiter : str or None
        By default a tab for names that end in ``.tsv`` or ``.tab``, and a comma for others.
    decimal : str
    """

    delimiter: str | None = None
    decimal: str = "."

    def validated(self) -> Dialect:
        """Check the characters. A backslash followed by "t", as typed in a shell, stands for a tab."""
        delimiter = "\t" if self.delimiter == "\\t" else self.delimiter
        if delimiter is not None and not (isinstance(delimiter, str) and len(delimiter) == 1 and delimiter.isascii()):
            raise BadOption(f"the delimiter must be one character, such as ';', not {delimiter!r}")
        if self.decimal not in (".", ","):
            raise BadOption(f"the decimal point must be '.' or ',', not {self.decimal!r}")
        return self._replace(delimiter=delimiter)

    def delimiter_for(self, name: str) -> str:
        """The delimiter of a file with this name."""
        has_tabs = name.lower().removesuffix(".gz").endswith((".tsv", ".tab"))
        delimiter = self.delimiter or ("\t" if has_tabs else ",")
        if delimiter == self.decimal:
            raise BadOption(
                f"the delimiter and the decimal point are both {delimiter!r}. Pass the delimiter of the file, for "
                f"example {_SEMICOLON}",
                options=[_SEMICOLON],
            )
        return delimiter
