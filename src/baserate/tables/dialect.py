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
        mark = "\t" if self.delimiter == "\\t" else self.delimiter
        if mark is not None and not (isinstance(mark, str) and len(mark) == 1 and mark.isascii()):
            raise BadOption(f"the delimiter must be one character, such as ';', not {mark!r}")
        if self.decimal not in (".", ","):
            raise BadOption(f"the decimal point must be '.' or ',', not {self.decimal!r}")
        return self._replace(delimiter=mark)

    def delimiter_of(self, name: str) -> str:
        """The delimiter of a file with this name."""
        mark = self.delimiter or ("\t" if name.lower().removesuffix(".gz").endswith((".tsv", ".tab")) else ",")
        if mark == self.decimal:
            raise BadOption("a comma cannot be decimal point and delimiter at once; say which delimiter there is")
        return mark
