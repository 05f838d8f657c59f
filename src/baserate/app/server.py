"""Start and stop the server of the page."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
import warnings
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn

from baserate.app.analyses import Analyses
from baserate.app.jobs import Jobs
from baserate.app.private_folder import PrivateFolder
from baserate.app.security import Access, Guard
from baserate.app.views import Views
from baserate.errors import BadOption, NotConvergedWarning

LOOPBACK = "127.0.0.1"
_SECONDS_TO_STOP = 2
_BACKLOG = 512


def serve(
    files: Sequence[Path],
    *,
    host: str = LOOPBACK,
    port: int = 0,
    max_upload: int = 1_000_000_000,
    open_browser: bool = True,
    tell: Callable[[str], None] = print,
) -> None:
    """Serve the page until the process is interrupted.

    Parameters
    ----------
    files : sequence of Path
        Files that can be opened on the page without an upload.
    host : str
        The address to listen on.
    port : int
        The port; 0 for any free port.
    max_upload : int
        Largest size of an upload, in bytes.
    open_browser : bool
    tell : callable
        Receives what the user should read in the terminal.
    """
    listener = _listen(host, port)
    address, number = listener.getsockname()[:2]
    access = Access(_accepted_hosts(host, address, number))
    shown = f"[{address}]" if ":" in address else address
    url = f"http://{shown}:{number}/{access.token}/"
    folder = PrivateFolder()
    jobs = Jobs(folder)
    try:
        with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is how a user stops the server
            views = Views(f"/{access.token}", Analyses(folder, tuple(files)), jobs, max_upload)
            tell(f"The page is at {url}\nPress Ctrl-C to stop.")
            if open_browser:
                threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NotConvergedWarning)  # the page says so
                _run(Guard(views.app(), access), listener)
    finally:
        jobs.cancel_all()
        folder.remove()


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can connect to an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _run(app: Guard, listener: socket.socket) -> None:
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # addresses contain the token
        server_header=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=_SECONDS_TO_STOP,
    )
    uvicorn.Server(config).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        raise BadOption(
            f"the server cannot listen on {host}, port {port}: {error.strerror or error}; choose another port with "
            "--port, or leave it out for any free port"
        ) from None
    return listener


def _accepted_hosts(host: str, address: str, port: int) -> tuple[str, ...]:
    """Values of the header Host that name this server. Names that others control are refused."""
    names = {host, address}
    if is_loopback(host):
        names |= {LOOPBACK, "localhost", "::1"}
    elif ipaddress.ip_address(address).is_unspecified:
        own = socket.gethostname()
        with contextlib.suppress(OSError):
            names |= {str(found[4][0]) for found in socket.getaddrinfo(own, None)}
        names |= {own, LOOPBACK, "localhost"}
    return tuple(f"[{name}]:{port}" if ":" in name else f"{name.lower()}:{port}" for name in sorted(names))
