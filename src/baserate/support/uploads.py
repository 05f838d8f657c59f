"""Files and folders at URLs that are written completely or not at all.

An object store shows an object only when its upload is complete. On S3, the rows are uploaded in parts while they are
computed, and the upload is completed at the end or abandoned. For other stores they are collected in a temporary file,
which is uploaded in one piece at the end.

No store can replace a folder in one step. While its files are replaced, it has a file ``_INCOMPLETE`` and no file
``_SUCCESS``. All uploads are finished except for their last request before the first file is replaced.
"""

from __future__ import annotations

import contextlib
import io
import secrets
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from baserate.errors import BadOption, MissingFile
from baserate.support.remote_files import RemoteFile
from baserate.support.spool import Spool

SUCCESS = "_SUCCESS"
"""The last file that is written to a folder. It lists the others. A folder without it may be incomplete."""

INCOMPLETE = "_INCOMPLETE"
"""A file in a folder whose files are being replaced."""

SIGNATURE = "written by baserate"
"""First line of both files."""

_MOST_PAGES = 1000  # Pages of uploads that were not completed; a page has up to 1000.


class Upload(ABC):
    """The new content of one file. It is visible after :meth:`commit`."""

    def __init__(self, to: RemoteFile) -> None:
        self.to = to

    @abstractmethod
    def file(self) -> contextlib.AbstractContextManager[BinaryIO]:
        """Open the new content for writing."""

    @abstractmethod
    def commit(self) -> None:
        """Replace the file by the new content."""

    @abstractmethod
    def discard(self) -> None:
        """Remove the new content, unless it was committed."""


class MultipartUpload(Upload):
    """An upload to S3 in parts."""

    _file: Any = None

    @contextlib.contextmanager
    def file(self) -> Iterator[BinaryIO]:
        with self.to.errors("written"):
            self._file = self.to.file_system.open(self.to.path, "wb", autocommit=False)
        yield cast(BinaryIO, _NamingWriter(self.to, self._file))
        with self.to.errors("written"):
            self._file.close()  # uploads the last part, and does not complete the upload

    def commit(self) -> None:
        with self.to.errors("written"):
            self._file.commit()
        self._file = None

    def discard(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(Exception):  # for the same reason as the error that led here, such as no network
                file.discard()
            file.closed = True  # or its finalizer would complete the upload


class SpooledUpload(Upload):
    """An upload of a temporary file as a whole."""

    _spool: Spool | None = None

    @contextlib.contextmanager
    def file(self) -> Iterator[BinaryIO]:
        self._spool = Spool()
        with self._spool.writing() as file:
            yield file

    def commit(self) -> None:
        assert self._spool is not None
        to, path = self.to.file_system, self.to.path
        with self.to.errors("written"):
            if self.to.package is not None:  # an object store, which shows no partial objects
                to.put_file(self._spool.path, path)
            else:
                folder, slash, name = path.rpartition("/")
                temporary = f"{folder}{slash}.{name}.{secrets.token_hex(8)}.tmp"
                to.put_file(self._spool.path, temporary)
                to.mv(temporary, path)
        self._spool = None

    def discard(self) -> None:
        self._spool = None


class _NamingWriter(io.RawIOBase):
    """A file that is open for writing, whose errors name the URL."""

    def __init__(self, to: RemoteFile, file: Any) -> None:
        self._to, self._file = to, file

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return int(self._file.tell())

    def write(self, data: Any) -> int:
        with self._to.errors("written"):
            self._file.write(data)
        return memoryview(data).nbytes


def start_upload(to: RemoteFile) -> Upload:
    """Prepare new content for a file."""
    return MultipartUpload(to) if to.package == "s3fs" else SpooledUpload(to)


class RemoteStaging:
    """New content of a file or a folder at a URL; it has the methods of :class:`baserate.support.atomic_files.Staging`.

    Uploads to the same place that were not completed, as those of a process that was killed, are abandoned first. If
    two processes write to the same place at the same time, the one that started first fails.
    """

    def __init__(self, to: RemoteFile) -> None:
        self._to = to
        self._is_folder = False
        self._uploads: dict[str, Upload] = {}
        weakref.finalize(self, _discard, self._uploads)  # if it is neither committed nor discarded, because of an error

    @contextlib.contextmanager
    def file(self) -> Iterator[BinaryIO]:
        """Open the new content for writing."""
        abandon_uploads(self._to, is_folder=False)
        upload = self._uploads[""] = start_upload(self._to)
        with upload.file() as file:
            yield file

    def folder(self) -> None:
        """Prepare a folder. Its files are written with :meth:`member`."""
        self._is_folder = True
        abandon_uploads(self._to, is_folder=True)

    @contextlib.contextmanager
    def member(self, relative_path: str) -> Iterator[BinaryIO]:
        """Open a new file in the folder for writing."""
        upload = self._uploads[relative_path] = start_upload(self._to.joined(relative_path))
        with upload.file() as file:
            yield file

    def commit(self) -> None:
        """Replace the file, or the files of the folder."""
        if self._is_folder:
            self._replace_folder()
        else:
            self._uploads[""].commit()
        self._uploads.clear()

    def discard(self) -> None:
        """Remove the new content, unless it was committed."""
        _discard(self._uploads)

    def _replace_folder(self) -> None:
        old, new = written_files(self._to), list(self._uploads)
        lines = [SIGNATURE, *dict.fromkeys([*old, *(name for name in new if name != SUCCESS)])]
        marker = self._to.joined(INCOMPLETE)
        with self._to.errors("written"):
            marker.file_system.pipe_file(marker.path, ("\n".join(lines) + "\n").encode())
            _remove(self._to.joined(SUCCESS))
            for name in new:
                if name != SUCCESS:
                    self._uploads[name].commit()
            for name in old:
                if name not in self._uploads:
                    _remove(self._to.joined(name))
            self._uploads[SUCCESS].commit()
            _remove(marker)


def written_files(folder: RemoteFile) -> list[str]:
    """The files that this package has written to a folder, by the list in it, which an interrupted run may have left.

    None of them are ``_SUCCESS`` and ``_INCOMPLETE``.
    """
    found: dict[str, None] = {}
    for name in (SUCCESS, INCOMPLETE):
        with contextlib.suppress(MissingFile):
            signature, *names = folder.joined(name).read_bytes().decode(errors="replace").split("\n")
            if signature == SIGNATURE:
                found |= dict.fromkeys(one for one in names if one)
    return list(found)


def abandon_uploads(to: RemoteFile, *, is_folder: bool) -> None:
    """Remove the parts of uploads to a place that were not completed. Only S3 keeps them."""
    if to.package != "s3fs":
        return
    store, (bucket, key, _) = to.file_system, to.file_system.split_path(to.path)
    prefix = key.rstrip("/") + "/" * is_folder
    more: dict[str, str] = {}
    for _ in range(_MOST_PAGES):
        try:
            page = store.call_s3("list_multipart_uploads", Bucket=bucket, Prefix=prefix, **more)
        except PermissionError:  # Not everyone who may write may list. Then the parts stay.
            return
        except Exception as error:
            to.fail("written", error)
        for one in page.get("Uploads", []):
            if one["Key"] == prefix or (is_folder and one["Key"].startswith(prefix)):
                with contextlib.suppress(Exception):  # it was completed or abandoned meanwhile
                    store.call_s3("abort_multipart_upload", Bucket=bucket, Key=one["Key"], UploadId=one["UploadId"])
        if not page.get("IsTruncated"):
            return
        more = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}


def check_upload(to: RemoteFile) -> None:
    """Raise if a file cannot be written. On S3 an upload is begun and abandoned, which needs the same permission."""
    to.check_writable_protocol()
    to.check_not_folder()
    if to.package != "s3fs":
        to.exists()
        return
    store = to.file_system
    bucket, key, _ = store.split_path(to.path)
    if not key.strip("/"):
        raise BadOption(f"{to.url} names a bucket; add the name of a file or folder in it")
    with to.errors("written"):
        begun = store.call_s3("create_multipart_upload", Bucket=bucket, Key=key)
        store.call_s3("abort_multipart_upload", Bucket=bucket, Key=key, UploadId=begun["UploadId"])


def _discard(uploads: dict[str, Upload]) -> None:
    for upload in uploads.values():
        upload.discard()
    uploads.clear()


def _remove(file: RemoteFile) -> None:
    with contextlib.suppress(FileNotFoundError):
        file.file_system.rm_file(file.path)
