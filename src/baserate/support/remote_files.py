"""Files at URLs, such as ``s3://bucket/key``. The package fsspec reads and writes them, with one package per protocol.

Not pyarrow.fs: it has no ``https://``, and its output streams cannot be abandoned, so that an error would leave half of
an object behind.
"""

from __future__ import annotations

import contextlib
import io
import posixpath
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NoReturn

from baserate.errors import BadFile, BadOption, MissingFile

_PACKAGES = {
    **dict.fromkeys(["s3", "s3a"], "s3fs"),
    **dict.fromkeys(["gs", "gcs"], "gcsfs"),
    **dict.fromkeys(["az", "abfs", "abfss", "adl"], "adlfs"),
    **dict.fromkeys(["http", "https"], "aiohttp"),
}
_CREDENTIALS = {
    "s3fs": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile in ~/.aws",
    "gcsfs": "set GOOGLE_APPLICATION_CREDENTIALS, or run gcloud auth application-default login",
    "adlfs": "set AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
_ALIASES = {"s3a": "s3", "gcs": "gs", "abfs": "az", "abfss": "az"}
_CACHES = re.compile("^(simplecache|filecache|blockcache|cached)::")
_READ_ONLY = ("http", "https", "github", "git", "data", "zip", "tar", "libarchive")
_ATTEMPTS = 3  # Readings of the same bytes, if the connection is cut.
_MISSING_PLACE = re.compile("(bucket|upload) does not exist")  # messages of S3
_NEVER_RIGHT = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)


def is_url(path: object) -> bool:
    """Whether a path is a URL of a file that is not on this machine."""
    return isinstance(path, str) and "://" in path and not path.startswith(("file://", "local://"))


class RemoteFile:
    """A file, or a folder, at a URL.

    Parameters
    ----------
    url : str
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.protocol = re.split("::|://", url, maxsplit=1)[0]
        self.package = _PACKAGES.get(self.protocol)

    def __str__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        """The last part of the path."""
        path = self.url.split("?")[0] if self.is_web else self.url
        return path.rstrip("/").rpartition("/")[2]

    @property
    def identity(self) -> str:
        """What is equal for URLs that may be the same file.

        Stores distinguish ``s3://b/x`` from ``s3://b//x``, but not all programs do, and some resolve "..". So two
        different files may have one identity, but one file never has two.
        """
        if self.is_web:
            return self.url.rstrip("/")
        protocol, _, path = _CACHES.sub("", self.url).partition("://")
        protocol = _ALIASES.get(protocol, protocol)
        if protocol == "az":  # a container may be followed by the account
            path = re.sub("^([^/@]*)@[^/]*", r"\1", path)
        return f"{protocol}:/{posixpath.normpath('/' + path.lstrip('/'))}"

    @property
    def is_web(self) -> bool:
        """Whether this is a page on the web, which is one file and cannot be listed."""
        return self.protocol in ("http", "https")

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        try:
            import fsspec

            # Without a cache of listings, which would hide what other programs write.
            return fsspec.core.url_to_fs(self.url, use_listings_cache=False)
        except ImportError as error:
            if self.package is None:
                raise ImportError(f"{self.url} needs another package: {error}") from None
            raise ImportError(f'{self.url} needs {self.package}: pip install "baserate[cloud]" ({error})') from None
        except ValueError as error:
            raise BadOption(
                f"{self.url} cannot be used: {error}; the protocols s3://, gs://, az:// and https:// are possible, and "
                "those of other packages for fsspec"
            ) from None
        except Exception as error:
            self.fail("used", error)

    @property
    def file_system(self) -> Any:
        """The file system of fsspec."""
        return self._opened[0]

    @property
    def path(self) -> str:
        """The path within the file system."""
        return self._opened[1]

    def url_of(self, path: str) -> str:
        """The URL of another path in the same file system."""
        return str(self.file_system.unstrip_protocol(path))

    def joined(self, relative_path: str) -> RemoteFile:
        """A file in this folder."""
        return RemoteFile(f"{self.url.rstrip('/')}/{relative_path}")

    def is_folder(self) -> bool:
        """Whether there are files below this path."""
        if self.is_web:
            return False
        with self.errors("read"):
            return bool(self.file_system.isdir(self.path)) and not self.file_system.isfile(self.path)

    def exists(self) -> bool:
        """Whether there is a file, or files below this path."""
        with self.errors("read"):
            return bool(self.file_system.exists(self.path))

    def files(self) -> list[str]:
        """The paths of the files in this folder and its subfolders, relative to it, in order."""
        with self.errors("read"):
            root = self.path.rstrip("/")
            found = self.file_system.find(root)
        return sorted(path[len(root) + 1 :] for path in found if path.startswith(f"{root}/") and path[len(root) + 1 :])

    def matches(self) -> list[str]:
        """The URLs that a glob pattern matches, in order."""
        with self.errors("read"):
            found = self.file_system.glob(self.path, detail=True)
        return [self.url_of(path) for path, about in sorted(found.items()) if about["type"] == "file"]

    def state(self) -> Any:
        """What distinguishes the present content from an earlier one; None if there is none, or it cannot be read."""
        try:
            about = self.file_system.info(self.path)
        except Exception:  # of any package; the caller only compares two states
            return None
        is_folder = about["type"] == "directory"
        return self.joined("_SUCCESS").state() if is_folder and self.name != "_SUCCESS" else _state(about)

    def read_bytes(self) -> bytes:
        """The whole content."""
        with self.open() as file:
            return bytes(file.read())

    def open(self, expected: Any = None) -> RemoteReader:
        """Open the file for reading; ``expected`` is the state that it had before, if it must not have changed."""
        return RemoteReader(self, expected)

    def check_writable_protocol(self) -> None:
        """Raise if files cannot be written by this protocol."""
        if "::" in self.url:
            raise BadOption(
                f"{self.url} cannot be written: a chain of protocols, with ::, can only be read; write to a path "
                "or to a URL with one protocol"
            )
        if self.protocol in _READ_ONLY:
            raise BadOption(
                f"{self.url} cannot be written: {self.protocol}:// can only be read; write to a path or another URL"
            )

    def check_not_folder(self) -> None:
        """Raise if this is a folder, so that it cannot be written as a file."""
        try:
            is_folder = self.url.endswith("/") or self.is_folder()
        except BadFile:  # not everyone who may write may list
            return
        if is_folder:
            raise BadFile(f"{self.url} cannot be written: it is a folder; add the name of a file in it")

    @contextlib.contextmanager
    def errors(self, purpose: str) -> Iterator[None]:
        """Turn errors of any package into errors that name the URL; ``purpose`` is "read" or "written"."""
        try:
            yield
        except Exception as error:
            self.fail(purpose, error)

    def fail(self, purpose: str, error: Exception) -> NoReturn:
        """Raise an error that names the URL and says what to do."""
        if isinstance(error, (BadFile, BadOption, ImportError)):
            raise error
        reason = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, IsADirectoryError):
            raise BadFile(f"{self.url} is a folder, not a file; add the name of a file in it") from error
        if isinstance(error, FileNotFoundError) and self.is_web:
            why = f" ({error.__cause__})" if error.__cause__ is not None else ""
            raise MissingFile(f"{self.url} does not exist, or its server cannot be reached{why}; check it") from error
        if isinstance(error, FileNotFoundError):
            what = f"cannot be {purpose}: {reason}" if _MISSING_PLACE.search(reason) else "does not exist"
            raise MissingFile(f"{self.url} {what}; check the name, and that of the bucket") from error
        if _is_denied(error):
            advice = _CREDENTIALS.get(self.package or "", "see the documentation of its package for fsspec")
            raise BadFile(
                f"{self.url} cannot be {purpose}: access was denied ({reason}). Check the credentials: {advice}"
            ) from error
        raise BadFile(
            f"{self.url} cannot be {purpose}: {type(error).__name__}: {reason}. Check the name and the connection, and "
            "try again"
        ) from error


class RemoteReader(io.RawIOBase):
    """A remote file that is open for reading.

    A read is repeated if the connection is cut. It fails if the file was changed since it was first opened: rows of two
    versions must not be mixed.
    """

    def __init__(self, of: RemoteFile, expected: Any = None) -> None:
        self._of = of
        with of.errors("read"):
            # Each read is one request for just these bytes. Readers ask for whole columns, or have their own buffers.
            self._file = of.file_system.open(of.path, "rb", cache_type="none")
        if expected is not None and self.state != expected:
            raise BadFile(f"{of.url} was changed while it was being read; run again when nothing writes to it")

    @property
    def state(self) -> Any:
        """What distinguishes this content from another one."""
        return _state(getattr(self._file, "details", None) or {})

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._file.seekable())

    def tell(self) -> int:
        return int(self._file.tell())

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._file.seek(offset, whence))

    def read(self, size: int | None = -1) -> bytes:
        start = self._file.tell()
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return bytes(self._file.read(-1 if size is None else size))
            except Exception as error:
                if attempt == _ATTEMPTS or isinstance(error, _NEVER_RIGHT) or type(error).__name__ == "FileExpired":
                    self._of.fail("read", error)
                if self.seekable():
                    self._file.seek(start)
        raise AssertionError("not reached")

    def readall(self) -> bytes:
        return self.read()

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def _is_denied(error: Exception) -> bool:
    """Whether a store refused access. The package for Azure has no PermissionError, but the status of the answer."""
    is_refused = isinstance(error, PermissionError) or getattr(error, "status_code", None) in (401, 403)
    return is_refused or "redential" in type(error).__name__ + str(error)


def _state(about: dict[str, Any]) -> tuple[str, ...]:
    """The entries of a description that change with the content."""
    entries = ("size", "ETag", "etag", "LastModified", "mtime", "updated", "last_modified", "md5Hash", "created")
    return tuple(f"{name}={about[name]}" for name in entries if about.get(name) is not None)
