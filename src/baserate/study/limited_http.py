"""Limits on the size and the duration of responses, for code that sends requests without any."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

MAX_BYTES = 2**30
"""Most bytes of a response, as received and as decompressed.

The largest file that the study uses has predictions for a million rows and eight classes, which are about 200 MB.
"""

MAX_SECONDS = 900.0
"""Most seconds until a response is complete. At this limit, a file of ``MAX_BYTES`` needs 1.2 MB per second."""

SILENCE = 60.0
"""Most seconds in which the server sends nothing."""

_CHUNK = 2**16


class TooLarge(Exception):
    """A response has more than ``MAX_BYTES``."""


@contextlib.contextmanager
def limited_responses() -> Iterator[None]:
    """Limit all responses to requests that this thread sends by the package requests inside the ``with`` block.

    The package openml sets no limits, so the method by which all sessions send requests is replaced.
    """
    from requests.adapters import HTTPAdapter

    send, thread = HTTPAdapter.send, threading.get_ident()

    def limited(adapter: Any, request: Any, **options: Any) -> Any:
        if threading.get_ident() != thread:
            return send(adapter, request, **options)
        return _Transfer(lambda: send(adapter, request, **options | {"timeout": SILENCE})).response(request.url)

    # Not an adapter that is mounted on a session: openml creates its sessions out of reach.
    HTTPAdapter.send = limited  # type: ignore[method-assign,assignment]  # mypy cannot check a method that is replaced
    try:
        yield
    finally:
        HTTPAdapter.send = send  # type: ignore[method-assign]  # see above


class _Transfer:
    """A request that is sent in a thread of its own.

    A thread, because a server that sends one byte at a time keeps every call of the socket below its time limit. A
    thread that waits for such a server is left behind, and ends when the server closes the connection.
    """

    def __init__(self, send: Any) -> None:
        self._send = send
        self._result: Any = None
        self._error: BaseException | None = None
        self._stopped = False

    def response(self, url: str) -> Any:
        """The complete response."""
        import requests

        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            thread.join(MAX_SECONDS)
        finally:
            self._stopped = True
        if thread.is_alive():
            raise requests.exceptions.ReadTimeout(f"the response of {url} was not complete after {MAX_SECONDS:g} s")
        if self._error is not None:
            raise self._error
        return self._result

    def _run(self) -> None:
        try:
            self._result = self._send()
            self._read(self._result)
        except BaseException as error:  # it is raised again in the thread that waits
            self._error = error

    def _read(self, response: Any) -> None:
        """Read the content, and stop as soon as it is too large."""
        announced = response.headers.get("Content-Length", "")
        if announced.isdecimal() and int(announced[:20]) > MAX_BYTES:
            self._refuse(response, f"{announced[:20]} bytes")
        if "," in response.headers.get("Content-Encoding", ""):
            self._refuse(response, "content that is compressed more than once")
        content = bytearray()
        for chunk in response.iter_content(_CHUNK):
            content += chunk
            if self._stopped or max(len(content), response.raw.tell()) > MAX_BYTES:
                self._refuse(response, f"more than {MAX_BYTES} bytes")
        response._content = bytes(content)  # where requests keeps the content after it was read

    @staticmethod
    def _refuse(response: Any, what: str) -> None:
        response.close()
        raise TooLarge(f"the server sends {what}; at most {MAX_BYTES} bytes are accepted")
