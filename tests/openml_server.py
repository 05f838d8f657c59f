"""A local server with the XML interface of OpenML that records requests and fails on demand."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from xml.sax.saxutils import escape

NAMESPACE = 'xmlns:oml="http://openml.org/openml"'
HOSTILE = ("announced", "endless", "bomb", "trickle")
PROCEDURES = {1: "10-fold Crossvalidation", 6: "33% Holdout set", 7: "10 times 10-fold Crossvalidation"}


@dataclass
class DataSet:
    name: str
    text: str
    rows: int
    classes: tuple[str, ...]
    ignored: str = ""
    checksum: bool = True


@dataclass
class Task:
    data: int
    procedure: int = 1


@dataclass
class Run:
    task: int
    predictions: str | None
    flow: str = "weka.NaiveBayes(1)"
    gone: bool = False
    url: str = ""
    data: str = ""


def element(name: str, *inside: object) -> str:
    return f"<oml:{name}>{''.join(map(str, inside))}</oml:{name}>"


def root(name: str, *inside: object) -> str:
    return f"<oml:{name} {NAMESPACE}>{''.join(map(str, inside))}</oml:{name}>"


def no_result(code: int) -> tuple[int, str]:
    return 412, root("error", element("code", code), element("message", "No results"))


@dataclass
class OpenMLServer:
    """A local OpenML server.

    ``events`` lists the paths of all requests; tests can add their own entries. ``failure(path)`` returns how the
    request fails ("close", "status", "unknown", "page", "cut", "announced", "endless", "bomb" or "trickle"), or "".
    A failure that starts with "http" or "file" is a redirection to that address.
    """

    datasets: dict[int, DataSet]
    tasks: dict[int, Task]
    runs: dict[int, Run]
    events: list[str] = field(default_factory=list)
    failure: Callable[[str], str] = lambda path: ""
    retry_after: str = ""
    closing: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> OpenMLServer:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.events.append(self.path)
                kind = outer.failure(self.path)
                if kind == "close":
                    self.close_connection = True
                    return
                if kind in HOSTILE:
                    self.send_hostile(kind)
                    return
                if kind.startswith(("http", "file")):
                    self.send_response(302)
                    self.send_header("Location", kind)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                status, text = (500, "out of order") if kind == "status" else outer.answer(self.path)
                status, text = no_result(111) if kind == "unknown" else (status, text)
                status, text = (
                    (200, "<html>The server is under maintenance.</html>") if kind == "page" else (status, text)
                )
                body = gzip.compress(text.encode())
                self.send_response(status)
                self.send_header("Content-Encoding", "gzip")
                if kind and outer.retry_after:
                    self.send_header("Retry-After", outer.retry_after)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: len(body) // 2] if kind == "cut" else body)

            def send_hostile(self, kind: str) -> None:
                """Send an answer that is too large, or that does not end."""
                self.send_response(200)
                if kind == "announced":
                    self.send_header("Content-Length", str(3 * 10**9))
                if kind == "bomb":
                    self.send_header("Content-Encoding", "gzip")
                self.end_headers()
                with contextlib.suppress(OSError):  # the client closes the connection
                    if kind == "bomb":
                        self.wfile.write(gzip.compress(bytes(10**8)))
                    while kind == "endless" and not outer.closing.is_set():
                        self.wfile.write(b"0,0,0.5\n" * 10**4)
                    while kind == "trickle" and not outer.closing.wait(0.02):
                        self.wfile.write(b"0")
                        self.wfile.flush()
                self.close_connection = True

            def log_message(self, *args: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    @property
    def host(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def url(self) -> str:
        return f"{self.host}/api/v1/xml"

    def asked(self, word: str) -> list[str]:
        return [event for event in self.events if word in event]

    def answer(self, path: str) -> tuple[int, str]:
        parts = path.removeprefix("/api/v1/xml").strip("/").split("/")
        match parts:
            case ["estimationprocedure", "list"]:
                return 200, root("estimationprocedures", *map(self._procedure, PROCEDURES))
            case ["task", "list", *filters]:
                return self._page("tasks", [self._listed_task(task) for task in self.tasks], filters, 482)
            case ["run", "list", *filters]:
                task = int(filters[filters.index("task") + 1])
                listed = [self._listed_run(run) for run, about in self.runs.items() if about.task == task]
                return self._page("runs", listed, filters, 512)
            case ["task", number]:
                return 200, self._task(int(number))
            case ["run", number]:
                return (200, self._run(int(number))) if int(number) in self.runs else no_result(236)
            case ["data", "features", number]:
                return 200, self._features(int(number))
            case ["data", number]:
                return 200, self._data(int(number))
            case ["files", "data", number]:
                return 200, self.datasets[int(number)].text
            case ["files", "predictions", number]:
                run = self.runs[int(number)]
                return (404, "not here") if run.gone else (200, run.predictions or "")
        return 404, "no such page"

    def _page(self, name: str, items: list[str], filters: list[str], code: int) -> tuple[int, str]:
        limit, offset = (int(filters[filters.index(word) + 1]) for word in ("limit", "offset"))
        page = items[offset : offset + limit]
        return (200, root(name, *page)) if page else no_result(code)

    def _procedure(self, number: int) -> str:
        fields = {"id": number, "ttid": 1, "name": PROCEDURES[number], "type": "crossvalidation"}
        return element("estimationprocedure", *(element(name, value) for name, value in fields.items()))

    def _listed_task(self, number: int) -> str:
        task, data = self.tasks[number], self.datasets[self.tasks[number].data]
        fields = {
            "task_id": number,
            "task_type_id": 1,
            "task_type": "Supervised Classification",
            "did": task.data,
            "name": data.name,
            "status": "active",
        }
        inputs = {"estimation_procedure": task.procedure, "target_feature": "class", "source_data": task.data}
        qualities = {"NumberOfInstances": f"{data.rows}.0", "NumberOfClasses": f"{len(data.classes)}.0"}
        return element(
            "task",
            *(element(name, value) for name, value in fields.items()),
            *(f'<oml:input name="{name}">{value}</oml:input>' for name, value in inputs.items()),
            *(f'<oml:quality name="{name}">{value}</oml:quality>' for name, value in qualities.items()),
        )

    def _listed_run(self, number: int) -> str:
        fields = {"run_id": number, "task_id": self.runs[number].task, "setup_id": 1, "flow_id": 1, "uploader": 1}
        fields |= {"task_type_id": 1, "upload_time": "2014-04-06 23:30:40", "error_message": ""}
        return element("run", *(element(name, value) for name, value in fields.items()))

    def _task(self, number: int) -> str:
        source = element(
            "data_set", element("data_set_id", self.tasks[number].data), element("target_feature", "class")
        )
        procedure = element(
            "estimation_procedure",
            element("type", "crossvalidation"),
            element("data_splits_url", f"{self.host}/files/splits/{number}"),
            '<oml:parameter name="number_repeats">1</oml:parameter>',
            '<oml:parameter name="number_folds">10</oml:parameter>',
        )
        return root(
            "task",
            element("task_id", number) + element("task_type_id", 1) + element("task_type", "Supervised Classification"),
            f'<oml:input name="source_data">{source}</oml:input>',
            f'<oml:input name="estimation_procedure">{procedure}</oml:input>',
        )

    def _run(self, number: int) -> str:
        run = self.runs[number]
        fields = {"run_id": number, "uploader": 1, "uploader_name": "A. N. Other", "task_id": run.task}
        fields |= {"task_type": "Supervised Classification", "flow_id": 1, "flow_name": escape(run.flow)}
        fields |= {"setup_id": 1, "setup_string": "default"}
        files = [self._file("description", f"{self.host}/files/description/{number}")]
        if run.predictions is not None:
            files.append(self._file("predictions", run.url or f"{self.host}/files/predictions/{number}"))
        did = run.data or self.tasks[run.task].data
        return root(
            "run",
            *(element(name, value) for name, value in fields.items()),
            element("input_data", element("dataset", element("did", did))),
            element("output_data", *files),
        )

    def _file(self, name: str, url: str) -> str:
        return element("file", element("did", -1), element("file_id", 1), element("name", name), element("url", url))

    def _data(self, number: int) -> str:
        data = self.datasets[number]
        fields = {"id": number, "name": data.name, "version": 1, "format": "ARFF", "status": "active"}
        fields |= {"url": f"{self.host}/files/data/{number}", "default_target_attribute": "class"}
        fields |= {"ignore_attribute": data.ignored} if data.ignored else {}
        fields |= {"md5_checksum": hashlib.md5(data.text.encode()).hexdigest()} if data.checksum else {}
        return root("data_set_description", *(element(name, value) for name, value in fields.items()))

    def _features(self, number: int) -> str:
        names = "".join(element("nominal_value", name) for name in self.datasets[number].classes)
        target = element("index", 0) + element("name", "class") + element("data_type", "nominal") + names
        return root("data_features", element("feature", target))
