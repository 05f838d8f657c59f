"""How numbers and columns are set apart in text."""

from __future__ import annotations

from typing import NamedTuple

from baserate.errors import BadOption


class Dialect(NamedTuple):
    """Of CSV files; without a delimiter it is a tab for names that end in ``.tsv``, and else a comma."""

    delimiter: str | None = None
    decimal: str = "."

    def checked(self) -> Dialect:
        """Refuse what makes no sense."""
        if self.delimiter is not None and (len(self.delimiter) != 1 or not self.delimiter.isascii()):
            raise BadOption(f"the delimiter must be one character, not {self.delimiter!r}")
        if self.decimal not in (".", ","):
            raise BadOption(f"the decimal point must be '.' or ',', not {self.decimal!r}")
        if self.decimal == (self.delimiter or ","):
            raise BadOption("a comma cannot be decimal point and delimiter at once; say which delimiter there is")
        return self

    def delimiter_of(self, name: str) -> str:
        """The delimiter of a file with this name."""
        return self.delimiter or ("\t" if name.removesuffix(".gz").endswith((".tsv", ".tab")) else ",")
