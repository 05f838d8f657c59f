"""Servers on this machine that answer like Google Cloud Storage and Azure Blob Storage, behind a proxy with faults.

The first one is a package from PyPI, the second one is Azurite from npm, which needs Node. ``make test-stores``
installs both.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

# Otherwise gcsfs asks each bucket for its type by another protocol, which the server does not have.
os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")

from object_store import Proxy

SHELF = "shelf"
# The account and the key that Azurite documents. They are no secret.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class CloudStore(NamedTuple):
    """A running server.

    Attributes
    ----------
    protocol : str
        "gs" or "az".
    settings : dict
        Settings of fsspec with which requests pass through the proxy.
    direct : object
        A file system of fsspec whose requests do not.
    proxy : Proxy
    """

    protocol: str
    settings: dict[str, Any]
    direct: Any
    proxy: Proxy

    def url(self, key: str) -> str:
        """The URL of an object."""
        return f"{self.protocol}://{SHELF}/{key}"


@contextlib.contextmanager
def google_store() -> Iterator[CloudStore]:
    """Start the server for ``gs://``."""
    from gcp_storage_emulator.server import create_server
    from gcsfs import GCSFileSystem

    port = _free_port()
    server = create_server("127.0.0.1", port, in_memory=True, default_bucket=SHELF)
    server.start()
    proxy = Proxy("127.0.0.1", port)
    try:
        direct = GCSFileSystem(endpoint_url=f"http://127.0.0.1:{port}", token="anon", use_listings_cache=False)
        yield CloudStore("gs", {"endpoint_url": proxy.url, "token": "anon"}, direct, proxy)
    finally:
        proxy.close()
        server.stop()


@contextlib.contextmanager
def azure_store(program: Path) -> Iterator[CloudStore]:
    """Start the server for ``az://``."""
    from adlfs import AzureBlobFileSystem

    port = _free_port()
    options = ["--silent", "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]
    with subprocess.Popen(
        ["node", program, *options, "--blobPort", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        _wait_for(port)
        proxy = Proxy("127.0.0.1", port)
        try:
            direct = AzureBlobFileSystem(connection_string=connection_string(f"http://127.0.0.1:{port}"))
            direct.mkdir(SHELF)
            yield CloudStore("az", {"connection_string": connection_string(proxy.url)}, direct, proxy)
        finally:
            proxy.close()
            server.terminate()


def connection_string(url: str, key: str = KEY) -> str:
    """What adlfs needs to find the server."""
    return f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={key};BlobEndpoint={url}/{ACCOUNT};"


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait_for(port: int) -> None:
    for _ in range(300):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise AssertionError("the server does not answer")
