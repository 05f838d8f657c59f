"""The text that users see of an object: the same title, statements, tables and notes as plain text and as HTML."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from baserate.support.text import printable

# The colours are those of the page, so that it can be read in light and dark notebooks. Not ``prefers-color-scheme``:
# notebooks have themes of their own, which the browser does not know.
_STYLE = """
.baserate-summary { line-height: 1.4; max-width: 62em; padding: .3em 0; }
.baserate-summary p { margin: 0 0 .4em; }
.baserate-summary .baserate-title { font-weight: 600; }
.baserate-summary ul { margin: 0 0 .6em; padding-left: 1.3em; }
.baserate-summary li { margin: .1em 0; }
.baserate-summary .baserate-scroll { overflow-x: auto; margin: .3em 0 .6em; }
.baserate-summary table { border-collapse: collapse; margin: 0; font-variant-numeric: tabular-nums; }
.baserate-summary th, .baserate-summary td { padding: .2em .7em; text-align: right; white-space: nowrap; }
.baserate-summary tr > :first-child { text-align: left; }
.baserate-summary th { font-weight: 600; border-bottom: 1px solid rgba(128, 128, 128, .6); }
.baserate-summary td { border-bottom: 1px solid rgba(128, 128, 128, .25); }
.baserate-summary .baserate-note { font-size: .92em; opacity: .8; margin: 0 0 .1em; }
"""


@dataclass(frozen=True)
class Table:
    """A table of texts. The first column has names, the others have numbers.

    Attributes
    ----------
    header : tuple of str
    rows : list of tuples of str
    """

    header: tuple[str, ...]
    rows: list[tuple[str, ...]]

    @classmethod
    def of(cls, columns: dict[str, list[str]]) -> Table:
        """The table with these columns, by their header."""
        return cls(tuple(columns), list(zip(*columns.values(), strict=True)))

    def lines(self) -> list[str]:
        """The table as aligned lines."""
        rows = [tuple(map(printable, row)) for row in (self.header, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        aligned = ([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in rows)
        return ["  ".join(cells).rstrip() for cells in aligned]

    def html(self) -> str:
        """The table as HTML."""
        head, *body = (_row(tag, row) for tag, row in [("th", self.header), *(("td", row) for row in self.rows)])
        table = f"<table><thead>{head}</thead><tbody>{''.join(body)}</tbody></table>"
        return f'<div class="baserate-scroll">{table}</div>'


@dataclass(frozen=True)
class Summary:
    """What a person sees of an object.

    Attributes
    ----------
    title : str
        May be empty.
    statements, tables, notes : sequences of str, Table and str
        In the order in which they are shown.
    """

    title: str = ""
    statements: Sequence[str] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()

    def text(self) -> str:
        """Several lines of plain text, without characters that a terminal would obey."""
        indent = "  " if self.title else ""
        opening = [printable(self.title)] * bool(self.title) + [
            f"{indent}{printable(line)}" for line in self.statements
        ]
        blocks = [opening] * bool(opening) + [[f"{indent}{line}" for line in table.lines()] for table in self.tables]
        lines = [line for block in blocks for line in ["", *block]][1:]
        return "\n".join([*lines, *(f"{indent}{printable(note)}" for note in self.notes)])

    def html(self) -> str:
        """An HTML fragment, in which all text is escaped."""
        title = f'<p class="baserate-title">{html.escape(self.title)}</p>' if self.title else ""
        items = "".join(f"<li>{html.escape(line)}</li>" for line in self.statements)
        tables = "".join(table.html() for table in self.tables)
        notes = "".join(f'<p class="baserate-note">{html.escape(note)}</p>' for note in self.notes)
        content = f"{title}{f'<ul>{items}</ul>' if items else ''}{tables}{notes}"
        return f'<div class="baserate-summary"><style>{_STYLE}</style>{content}</div>'


def _row(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"
