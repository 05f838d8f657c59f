"""Paths as callers write them: where they lead, and whether the system can use them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from baserate.errors import BadFile
from baserate.support.text import LONGEST_PATH, shortened

_PROBLEMS = {
    errno.ELOOP: "its symbolic links lead in a circle; remove the link, or let it point to a file",
    errno.ENAMETOOLONG: "the path, or a name in it, is longer than the system allows; choose a shorter one",
}


def real_path(path: str | os.PathLike[str]) -> Path:
    """The absolute path without symbolic links."""
    return Path(os.path.realpath(path))  # Not Path.resolve: it raises RuntimeError if links lead in a circle.


def places(path: str | os.PathLike[str]) -> set[Path]:
    """The real path of a file and, if ``path`` is a symbolic link to it, the place of the link."""
    path = Path(path)
    return {real_path(path), *([real_path(path.parent) / path.name] if path.is_symlink() else [])}


def check_path(path: str | os.PathLike[str]) -> None:
    """Raise if the system cannot look up a path. It is no error if there is no file."""
    try:
        Path(path).stat()
    except ValueError:
        raise BadFile(f"{os.fspath(path)!r} cannot be a path: it contains a zero character") from None
    except OSError as error:
        if error.errno in _PROBLEMS:
            raise BadFile(
                f"{shortened(os.fspath(path), LONGEST_PATH)} cannot be used: {_PROBLEMS[error.errno]}"
            ) from None
