"""Text that is changed while it is read."""

from __future__ import annotations

import io
from typing import Any

_NEW_LINES = b"\r\n"


class WithoutEmptyEnds(io.RawIOBase):
    """A file without the empty lines at its beginning and its end.

    Parameters
    ----------
    file : binary file
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        self._ready, self._new_lines, self._started = b"", b"", False

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while not self._ready:
            found = self._file.read(size if size > 0 else io.DEFAULT_BUFFER_SIZE)
            if not found:
                # One new line at the end, because without it the last line would be incomplete.
                self._ready, self._new_lines = self._new_lines[:1] and b"\n", b""
                break
            if not self._started:
                found = found.lstrip(_NEW_LINES)
            text = found.rstrip(_NEW_LINES)
            if text:
                self._ready, self._new_lines, self._started = self._new_lines + text, b"", True
            self._new_lines += found[len(text) :]
        cut = size if size > 0 else len(self._ready)
        part, self._ready = self._ready[:cut], self._ready[cut:]
        return part

    def close(self) -> None:
        self._file.close()
        super().close()
