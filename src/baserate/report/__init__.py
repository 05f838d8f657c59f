"""A page about an adjustment, to keep or to send: HTML in one file that needs no other, or Markdown.

Both are filled from the same summary; see :func:`baserate.report.summary.summary`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from baserate.errors import BadFile, BadOption
from baserate.result.record import Result
from baserate.support import atomic_files as files

__all__ = ["check_report", "write_report"]

_KINDS = {".html": "html", ".htm": "html", ".md": "markdown", ".markdown": "markdown"}


def write_report(path: str | os.PathLike[str], result: Result, **options: Any) -> None:
    """Write a page about an adjustment.

    Parameters
    ----------
    path : path-like
        Its ending says what is written: ``.html``, or ``.md``, which has no pictures.
    result : Result
        One that was just made: the rows are read once more.
    **options
        Of :func:`baserate.report.summary.summary`: labels, rates in training, a title, a note, the command.
    """
    kind = check_report(path)
    from baserate.report.pictures import pictures
    from baserate.report.summary import summary
    from baserate.report.templates import filled

    about = summary(result, **options)
    drawn = pictures(result, about["moves"], about["rows"], options.get("y")) if kind == "html" else {}
    with files.whole(path) as file:
        file.write(filled(kind, about, drawn).encode())


def check_report(path: str | os.PathLike[str]) -> str:
    """The kind of page that a name stands for; refuse what cannot be written before the work, not after it."""
    kind = _KINDS.get(Path(path).suffix.lower())
    if kind is None:
        raise BadOption(
            f"a report is HTML or Markdown, so its name should end in .html or .md, unlike {os.fspath(path)}"
        )
    files.check_place(path)
    if Path(path).is_dir():
        raise BadFile(f"{os.fspath(path)} is a folder")
    for name in ("jinja2", *(["matplotlib"] if kind == "html" else [])):
        try:
            __import__(name)
        except ImportError:
            raise ImportError(f'reports need {name}: pip install "baserate[report]"') from None
    return kind
