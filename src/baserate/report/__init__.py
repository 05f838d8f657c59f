"""A page about an adjustment: one self-contained HTML file, or Markdown.

Both are rendered from the same content; see :func:`baserate.report.content.report_content`.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import Any

from baserate.errors import BadFile, BadOption
from baserate.result.record import Result
from baserate.support import locations as files

__all__ = ["check_report", "write_report"]

_FORMATS = {".html": "html", ".htm": "html", ".md": "markdown", ".markdown": "markdown"}


def write_report(path: str | os.PathLike[str], result: Result, **options: Any) -> None:
    """Write a page about an adjustment.

    Parameters
    ----------
    path : path-like
        Must end in ``.html``, or in ``.md`` for a page without pictures.
    result : Result
        Its rows must be available, because they are read once more.
    **options
        Options of :func:`baserate.report.content.report_content`: labels, rates in training, title, note, command.
    """
    page_format = check_report(path)
    from baserate.report.content import report_content
    from baserate.report.pictures import draw_pictures
    from baserate.report.templates import render

    content = report_content(result, **options)
    pictures = draw_pictures(result, content, options.get("y")) if page_format == "html" else {}
    with files.write_atomically(path) as file:
        file.write(render(page_format, content.page, pictures).encode())


def check_report(path: str | os.PathLike[str]) -> str:
    """The format of the page at a path. Raises if it cannot be written, so that this is known before the work."""
    page_format = _FORMATS.get(PurePosixPath(path).suffix.lower())
    if page_format is None:
        raise BadOption(f"a report must end in .html or .md, unlike {os.fspath(path)}")
    files.check_writable(path)
    where = files.location(path)
    if isinstance(where, Path) and where.is_dir():
        raise BadFile(f"{os.fspath(path)} is a folder")
    for name in ("jinja2", *(["matplotlib"] if page_format == "html" else [])):
        try:
            __import__(name)
        except ImportError:
            raise ImportError(f'reports need {name}: pip install "baserate[report]"') from None
    return page_format
