"""Which requests are answered: those with the token, to this host, from the page itself.

Another page that the user has open could send requests to this server. It does not know the token, which is part of
every address, so there is no cookie that a browser would add to such a request. The checks of Host and Origin are a
second barrier, also against names that point to this machine for a moment (DNS rebinding).
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_SAFE_SITES = ("same-origin", "none")  # values of Sec-Fetch-Site; "none" is an address that the user opened
_READING = ("GET", "HEAD")


@dataclass(frozen=True)
class Access:
    """Who may use the server.

    Attributes
    ----------
    hosts : tuple of str
        Accepted values of the header Host.
    token : str
        The first part of every path.
    """

    hosts: tuple[str, ...]
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    def refusal(self, scope: dict[str, Any]) -> tuple[int, str] | None:
        """The status and the reason why a request is refused, or None."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        host, origin = headers.get("host", ""), headers.get("origin")
        if host.lower() not in self.hosts:
            return 421, "The address in the browser does not belong to this server."
        if origin is not None and origin.lower() != f"http://{host.lower()}":
            return 403, "The request came from another page."
        if headers.get("sec-fetch-site", "none") not in _SAFE_SITES:
            return 403, "The request came from another page."
        if origin is None and scope["method"] not in _READING:
            return 403, "The request does not say from which page it came."
        first = scope["path"].removeprefix("/").split("/", 1)[0]
        if not secrets.compare_digest(first.encode(), self.token.encode()):
            return 403, "The token in the address is missing or wrong. Copy the whole address from the terminal."
        return None


class Guard:
    """ASGI middleware that refuses other requests, removes the token from the path, and adds headers to answers."""

    def __init__(self, app: Any, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def send_with_headers(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message["headers"]}
                extra = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *(pair for pair in extra if pair[0] not in own)]
            await send(message)

        refused = self._access.refusal(scope)
        if refused is not None:
            await _refuse(*refused, send_with_headers)
            return
        inner = dict(scope) | {"path": scope["path"][len(self._access.token) + 1 :] or "/", "root_path": ""}
        await self._app(inner, receive, send_with_headers)


async def _refuse(status: int, reason: str, send: Any) -> None:
    body = f"{reason}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": body})
