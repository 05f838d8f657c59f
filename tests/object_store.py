"""A server that answers like S3, on this machine, and a proxy in front of it that makes faults."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

Fault = Callable[["Exchange"], None]


class Exchange(NamedTuple):
    """A request that passes through the proxy, and its answer, which a fault may change."""

    method: str
    path: str
    number: int
    answer: dict[str, Any]


class Store(NamedTuple):
    """A running server.

    Attributes
    ----------
    url : str
        Where S3 is, directly.
    proxy : Proxy
        Where S3 is with faults.
    """

    url: str
    proxy: Proxy


class Proxy:
    """Passes requests on to a server. ``fault`` may change, delay or cut each answer."""

    def __init__(self, host: str, port: int) -> None:
        self.fault: Fault | None = None
        self.n_requests = 0
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_all(self) -> None:
                body = self._body()
                with contextlib.closing(http.client.HTTPConnection(host, port, timeout=60)) as connection:
                    connection.request(self.command, self.path, body, dict(self.headers))
                    reply = connection.getresponse()
                    content = reply.read()
                headers = {k: v for k, v in reply.getheaders() if k.lower() not in ("connection", "transfer-encoding")}
                answer: dict[str, Any] = {"status": reply.status, "headers": headers, "body": content, "cut": None}
                proxy.n_requests += 1
                if proxy.fault is not None:
                    proxy.fault(Exchange(self.command, self.path, proxy.n_requests, answer))
                self._reply(answer)

            def _body(self) -> bytes:
                if self.headers.get("Expect", "").lower() == "100-continue":
                    del self.headers["Expect"]  # BaseHTTPRequestHandler has answered it
                if self.headers.get("Transfer-Encoding") != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length", 0)))
                parts = []
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                del self.headers["Transfer-Encoding"]
                return b"".join(parts)

            def _reply(self, answer: dict[str, Any]) -> None:
                self.send_response(answer["status"])
                has_length = any(name.lower() == "content-length" for name in answer["headers"])
                for name, value in answer["headers"].items():
                    self.send_header(name, value)
                if not has_length:
                    self.send_header("Content-Length", str(len(answer["body"])))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer["body"][: answer["cut"]])
                if answer["cut"] is not None:
                    self.close_connection = True
                    self.connection.close()

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_all  # noqa: N815  # names of the standard library

            def log_message(self, *args: Any) -> None:
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *args: Any) -> None:
                pass  # a client that has gone away

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    @contextlib.contextmanager
    def faults(self, fault: Fault) -> Iterator[None]:
        """Make faults inside a ``with`` block. Requests are counted from 1."""
        self.fault, self.n_requests = fault, 0
        try:
            yield
        finally:
            self.fault = None


def cut(times: int, *, method: str = "GET", least: int = 64) -> Fault:
    """Cut the connection in the middle of this many answers that have some length."""
    left = [times]

    def fault(exchange: Exchange) -> None:
        if exchange.method == method and len(exchange.answer["body"]) >= least and left[0] > 0:
            left[0] -= 1
            exchange.answer["cut"] = len(exchange.answer["body"]) // 2

    return fault


def slow(seconds: float) -> Fault:
    """Delay every answer."""
    return lambda exchange: time.sleep(seconds)


def refuse(code: str, status: int, *, method: str | None = None, start: int = 1) -> Fault:
    """Answer with an error of S3, from a request on."""

    def fault(exchange: Exchange) -> None:
        if (method is None or exchange.method == method) and exchange.number >= start:
            text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
            exchange.answer.update(status=status, body=text, headers={"Content-Type": "application/xml"})

    return fault


@contextlib.contextmanager
def running_store() -> Iterator[Store]:
    """Start the server and the proxy on free ports of the loopback address."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    proxy = Proxy(host, port)
    try:
        yield Store(f"http://{host}:{port}", proxy)
    finally:
        proxy.close()
        server.stop()
