"""Attacks on the server of the page: nothing is answered, nothing is left; about 15 seconds on one core."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from app_support import Server, animals, environment, running_browser, running_server

for package in ("starlette", "uvicorn"):
    pytest.importorskip(package)

NUMBER = {"kind": "number", "entries": [{"class": "cat", "low": "20"}]}

VALIDATION = animals(50).to_csv(index=False).encode()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path = tmp_path_factory.mktemp("files") / "animals.csv"
    animals(200).to_csv(path, index=False)
    temporary = tmp_path_factory.mktemp("temporary")
    with running_server(temporary, str(path), "--max-upload", "0.002") as started:
        yield started


def opened(server: Server) -> str:
    """Open the named file. Returns the path of its page."""
    status, body, _ = server.ask("/open/0", "POST")
    assert status == 200
    return str(json.loads(body)["url"]).removeprefix(f"/{server.token}")


def post(server: Server, path: str, value: Any) -> tuple[int, dict[str, Any]]:
    status, body, _ = server.ask(path, "POST", json.dumps(value), {"Content-Type": "application/json"})
    return status, json.loads(body)


def uploads(server: Server) -> list[Path]:
    """All files of the server with content of users."""
    return [path for path in server.temporary.rglob("*") if path.is_file() and not path.is_symlink()]


def paths_below(folder: Path) -> set[str]:
    # Not Path.rglob, which raises an error if a folder is removed meanwhile.
    return {str(Path(parent, name)) for parent, folders, files in os.walk(folder) for name in [*folders, *files]}


def wait_until(is_true: Any, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_page_needs_the_token(server: Server) -> None:
    assert server.ask("/")[0] == 200
    for path in ("=/", "=/static/app.js", f"=/{server.token[:-1]}/", f"=/{server.token}x/", "=/upload"):
        status, body, _ = server.ask(path)
        assert status == 403
        assert b"token" in body
        assert server.token.encode() not in body


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "localhost.evil.example", ""])
def test_other_host_names_are_refused(server: Server, host: str) -> None:
    assert server.ask("/", headers={"Host": host})[0] in (400, 421)


def test_requests_of_other_pages_are_refused(server: Server) -> None:
    before = server.left_over(), len(uploads(server))
    port = server.address[1]
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", f"https://127.0.0.1:{port}", None):
        assert server.ask("/open/0", "POST", headers={"Origin": origin})[0] == 403
        assert server.ask("/upload?name=a.csv", "POST", b"p\n0.5\n", headers={"Origin": origin})[0] == 403
    for site in ("cross-site", "same-site"):
        assert server.ask("/", headers={"Sec-Fetch-Site": site})[0] == 403
    assert (server.left_over(), len(uploads(server))) == before


def test_form_and_fetch_of_another_site_do_nothing(server: Server) -> None:
    attack = """<form id=f method=post action="URLopen/0" target=t><input name=a></form><iframe name=t></iframe>
    <script>
    const note = (text) => { document.title += " " + text; };
    document.title = "attack";
    f.submit();
    fetch("URL", {mode: "no-cors"}).then(() => note("sent"), () => note("failed"));
    fetch("URLopen/0", {method: "POST"}).then((r) => r.text()).then(() => note("read"), () => note("refused"));
    </script>""".replace("URL", server.url)
    before = paths_below(server.temporary)
    with running_browser() as browser:
        page = browser.new_page()
        page.route("http://evil.test/", lambda route: route.fulfill(body=attack, content_type="text/html"))
        page.goto("http://evil.test/")
        page.wait_for_function("document.title.includes('refused') && document.title.split(' ').length == 3")
        assert " read" not in page.title()
    assert paths_below(server.temporary) == before


def test_paths_outside_are_not_readable(server: Server) -> None:
    path = opened(server)
    for attempt in (
        "../../etc/passwd",
        "..%2f..%2fetc%2fpasswd",
        "%2e%2e/%2e%2e/etc/passwd",
        "/etc/passwd",
        "animals.csv",
        ".",
    ):
        for folder in (path.rpartition("/")[2], "..", "%2e%2e", "."):
            status, body, _ = server.ask(f"{path}/download/{folder}/{attempt}")
            assert status == 404
            assert b"root:" not in body
    for attempt in ("..%2fviews.py", "%2e%2e/server.py", "app.js%00", ""):
        assert server.ask(f"/static/{attempt}")[0] == 404
    assert server.ask("/open/1", "POST")[0] == 404
    assert server.ask("/open/-1", "POST")[0] == 404
    _, answer = post(server, f"{path}/exact", {"kind": "file", "entries": []})
    assert "Choose a file" in answer["problem"]


def test_rates_cannot_name_a_file_of_the_server(server: Server, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("class,rate\nsecret,1\n")
    path = opened(server)
    for text in (str(secret), "/etc/passwd"):
        _, answer = post(server, f"{path}/exact", {"kind": "number", "entries": [{"class": "cat", "low": text}]})
        assert "is not a number" in answer["problem"]
    _, answer = post(server, f"{path}/exact", {"kind": "groups", "by": "region", "rates_file": str(secret)})
    assert "Choose a table" in answer["problem"]


def test_uploaded_names_stay_in_the_private_folder(server: Server) -> None:
    content = animals(20).to_csv(index=False).encode()
    for name in ("../../evil.csv", "..%5C..%5Cevil.csv", "%2fetc%2fevil.csv", "-rf.csv", ".hidden.csv", "a%00b.csv"):
        status, body, _ = server.ask(f"/upload?name={name}", "POST", content)
        assert status == 200
        folder = server.temporary / server.left_over()[0] / json.loads(body)["url"].rpartition("/")[2]
        (saved,) = folder.iterdir()
        assert not saved.name.startswith(("-", "."))
    assert oct((server.temporary / server.left_over()[0]).stat().st_mode)[-3:] == "700"


def test_long_names_are_shortened(server: Server) -> None:
    content = animals(20).to_csv(index=False).encode()
    assert server.ask(f"/upload?name={'%E6%BC%A2' * 120}.csv", "POST", content)[0] == 200


def test_an_upload_that_fails_keeps_the_file_that_it_would_replace(server: Server) -> None:
    path = opened(server)
    rates = b"class,rate\ncat,0.2\ndog,0.3\nowl,0.5\n"
    assert "name" in json.loads(server.ask(f"{path}/file/rates?name=d.csv", "POST", rates)[1])

    def answer() -> str:  # without the folder of the links, which differs
        found = post(server, f"{path}/exact", {"kind": "file"})[1]["answer"]["html"]
        return re.sub(r"/download/\w+/", "/download/", found)

    before = answer()
    assert before
    assert json.loads(server.ask(f"{path}/file/rates?name=d.csv", "POST", b"")[1])["problem"]
    assert answer() == before
    # A file for another purpose with the same name does not replace it either.
    server.ask(f"{path}/file/validation?name=d.csv", "POST", animals(50).to_csv(index=False).encode())
    assert answer() == before


@pytest.mark.parametrize(
    ("purpose", "good", "broken", "reason"),
    [
        ("rates", b"class,rate\ncat,0.2\ndog,0.3\nowl,0.5\n", b"class,rate\ncat,much\n", "much"),
        (
            "rates",
            b"class,rate\ncat,0.2\ndog,0.3\nowl,0.5\n",
            b"class,rate\ncat,20\ndog,30\nowl,50\n",
            "since they sum to 100. Write",
        ),
        ("groups", b"region,cat\nnorth,0.2\nsouth,0.3\neast,0.1\n", b"region,cat\nnorth,much\n", "much"),
        ("validation", VALIDATION, b"p_cat,y\n0.5,cat\n", "no column 'p_dog'"),
        (
            "validation",
            VALIDATION,
            VALIDATION.replace(b",", b";"),
            "has semicolons between columns and decimal points. Save it with commas between columns and decimal points",
        ),
        (
            "groups",
            b"region,cat\nnorth,0.2\nsouth,0.3\neast,0.1\n",
            b"region,rate\nnorth,0.2\nsouth,0.3\neast,0.1\n",
            "Name the column with these numbers after their class, such as 'owl'",
        ),
    ],
)
@pytest.mark.parametrize("name", ["first.csv", "second.csv"])
def test_a_file_that_is_refused_does_not_replace_an_earlier_one(
    server: Server, purpose: str, good: bytes, broken: bytes, reason: str, name: str
) -> None:
    path, chosen = opened(server), "by=region&rates_kind=rates"
    assert "name" in json.loads(server.ask(f"{path}/file/{purpose}?name=first.csv&{chosen}", "POST", good)[1])
    said = json.loads(server.ask(f"{path}/file/{purpose}?name={name}&{chosen}", "POST", broken)[1])["problem"]
    assert reason in said
    assert said.endswith("The file first.csv, which you chose before, is still used.")
    assert "/" not in said
    (kept,) = server.temporary.rglob("first.csv")
    assert kept.read_bytes() == good
    server.ask(f"{path}/close", "POST", "{}")


@pytest.mark.parametrize("name", ["regions-changed.csv", "shift.json", "Report.html", "rates.json", "animals.csv"])
def test_the_input_is_never_overwritten(name: str, tmp_path: Path) -> None:
    content = animals(60).to_csv(index=False)
    (tmp_path / name).write_text(content)
    (tmp_path / "temporary").mkdir()
    with running_server(tmp_path / "temporary", str(tmp_path / name)) as server:
        answer = json.loads(server.ask("/open/0", "POST")[1])
        if name.endswith((".json", ".html")):
            assert "Give your file another name" in answer["problem"]
        else:
            path = answer["url"].removeprefix(f"/{server.token}")
            table = b"region,cat,dog,owl\nnorth,0.2,0.3,0.5\nsouth,0.3,0.3,0.4\neast,0.3,0.3,0.4\n"
            for upload in ("regions.csv", name):
                server.ask(f"{path}/file/groups?name={upload}", "POST", table)
                changes = {"north": {"cat": "30", "dog": "20", "owl": "50"}}
                form = {"kind": "groups", "by": "region", "rates_kind": "rates", "group_changes": changes}
                assert finished(server, post(server, f"{path}/write", form)[1])["state"] == "done"
    assert (tmp_path / name).read_text() == content


def test_estimates_follow_the_validation_file_and_its_rates_are_not_offered_for_others(server: Server) -> None:
    path, form = opened(server), {"kind": "validation", "validation_labels": "y"}
    answers = []
    for table in (animals(300, seed=1), animals(300, seed=2)):  # under the same name
        server.ask(f"{path}/file/validation?name=v.csv", "POST", table.to_csv(index=False).encode())
        answers.append(finished(server, post(server, f"{path}/exact", form)[1])["answer"]["html"])
    assert answers[0] != answers[1]
    written = finished(server, post(server, f"{path}/write", NUMBER)[1])["answer"]["html"]
    assert "shift.json" in written
    assert "rates.json" not in written


def finished(server: Server, status: dict[str, Any]) -> dict[str, Any]:
    """The status of a job when it has ended."""
    for _ in range(200):
        if status["state"] not in ("waiting", "running"):
            return status
        time.sleep(0.1)
        status = json.loads(server.ask(f"/job/{status['job']}")[1])
    raise AssertionError(status)


def test_answers_carry_the_policy(server: Server) -> None:
    _, body, headers = server.ask(opened(server))
    policy = headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert b"<script>" not in body
    assert b" style=" not in body
    assert b"http://" not in body
    assert b"https://" not in body


def test_upload_above_the_limit_is_refused_at_once_and_nothing_is_kept(server: Server) -> None:
    before = paths_below(server.temporary)
    host, port = server.address
    connection = http.client.HTTPConnection(host, port, timeout=20)
    connection.putrequest("POST", f"/{server.token}/upload?name=big.csv")
    for name, value in {"Origin": f"http://{host}:{port}", "Content-Length": str(5 * 10**9)}.items():
        connection.putheader(name, value)
    connection.endheaders()  # nothing of the body is sent
    answer = connection.getresponse()
    assert answer.status == 413
    assert "limit for uploads" in json.loads(answer.read())["message"]
    connection.close()

    def endless() -> Iterator[bytes]:  # a length that is not declared
        for _ in range(100):
            yield b"0.5,0.5\n" * 10_000

    try:
        status, _, _ = server.ask("/upload?name=big.csv", "POST", endless(), encode_chunked=True)
        assert status == 413
    except (BrokenPipeError, ConnectionResetError):
        pass  # the server has closed the connection
    wait_until(lambda: paths_below(server.temporary) == before)


def test_compressed_bombs_are_refused(server: Server) -> None:
    before = paths_below(server.temporary)
    packed = io.BytesIO()
    with gzip.open(packed, "wb") as file:
        file.write(b"p_a,p_b\n")
        for _ in range(30):
            file.write(b"0.5,0.5\n" * 125_000)  # 30 MB, against 10 times the limit of 2 MB
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("p.npy", bytes(30_000_000))
    table = io.BytesIO()
    pd.DataFrame({"p": np.zeros(30_000_000, dtype=bool)}).to_parquet(table)
    for name, content in {"a.csv.gz": packed, "a.npz": archive, "a.parquet": table}.items():
        assert len(content.getvalue()) < 2_000_000
        status, body, _ = server.ask(f"/upload?name={name}", "POST", content.getvalue())
        assert status == 413, name
        assert "after decompression" in json.loads(body)["message"]
    assert paths_below(server.temporary) == before


def test_client_that_disconnects_leaves_nothing(server: Server) -> None:
    before = paths_below(server.temporary)
    host, port = server.address
    with socket.create_connection((host, port)) as connection:
        head = f"POST /{server.token}/upload?name=half.csv HTTP/1.1\r\nHost: {host}:{port}\r\nOrigin: http://{host}:{port}\r\n"
        connection.sendall(f"{head}Content-Length: 1000000\r\n\r\n".encode() + b"p_a,p_b\n0.5,0.5\n" * 1000)
        wait_until(lambda: paths_below(server.temporary) != before)
    wait_until(lambda: paths_below(server.temporary) == before)
    assert server.ask("/")[0] == 200


def test_200_requests_at_once_are_answered(server: Server) -> None:
    path = opened(server)
    assert post(server, f"{path}/means", {})[0] == 200
    kinds = ["/", "/static/app.js", path]

    def ask(i: int) -> int:
        if i % 4 == 3:
            entries = [{"class": "cat", "low": str(10 + i % 50)}]
            return post(server, f"{path}/quick", {"kind": "number", "entries": entries})[0]
        return server.ask(kinds[i % 4])[0]

    with ThreadPoolExecutor(200) as pool:
        assert set(pool.map(ask, range(200))) == {200}


def test_malformed_requests_have_plain_answers(server: Server) -> None:
    path = opened(server)
    for body in (b"", b"{", b"[1]", b'"text"', b"\xff\xfe", b"[" * 100_000):
        assert server.ask(f"{path}/exact", "POST", body)[0] == 400
    for form in (
        {},
        {"kind": "none"},
        {"kind": "number", "entries": 7},
        {"kind": "number", "loss": "x", "entries": []},
        {"kind": "number", "entries": [5]},
        {"kind": "number", "entries": [{"low": "20"}]},
    ):
        _, answer = post(server, f"{path}/exact", form)
        assert answer["problem"]
    assert post(server, f"{path}/columns", {"roles": 5})[1]["problem"]
    assert server.ask("/a/0000", "GET")[0] == 404
    assert server.ask("/job/0000", "GET")[0] == 404
    assert server.ask(f"{path}/exact", "GET")[0] == 405


@pytest.mark.parametrize("when", ["at once", "after the first command"])
def test_cancelled_work_ends_and_writes_nothing(when: str, tmp_path: Path) -> None:
    animals(100_000).to_csv(tmp_path / "animals.csv", index=False)
    (tmp_path / "temporary").mkdir()
    with running_server(tmp_path / "temporary", str(tmp_path / "animals.csv")) as server:
        path = opened(server)
        folder = server.temporary / server.left_over()[0] / path.rpartition("/")[2]
        status, answer = post(server, f"{path}/write", NUMBER)
        assert status == 200
        assert answer["state"] in ("waiting", "running")  # it takes longer than a request waits
        if when == "after the first command":
            wait_until(lambda: list(folder.glob("*/animals-adjusted.csv")))
        post(server, f"/job/{answer['job']}/cancel", {})
        wait_until(lambda: server.ask(f"/job/{answer['job']}", "GET")[1].find(b'"cancelled"') > 0)
        assert [entry.name for entry in folder.iterdir()] == ["animals.csv"]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_killed_server_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "animals.csv"
    animals(200).to_csv(path, index=False)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with running_server(temporary, str(path)) as server:
        page = opened(server)
        server.ask("/upload?name=b.csv", "POST", path.read_bytes())
        thread = threading.Thread(target=lambda: _ignore_errors(server, page))
        thread.start()
        time.sleep(0.3)  # a command is running now
        assert uploads(server)
        os.kill(server.process.pid, signal.SIGKILL)
        wait_until(lambda: not server.left_over())
        thread.join()
    assert path.exists()  # the named file is read where it is, and never removed


def _ignore_errors(server: Server, page: str) -> None:
    with contextlib.suppress(OSError, http.client.HTTPException):
        post(server, f"{page}/write", NUMBER)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_ctrl_c_does_not_wait_for_a_file_that_is_read(tmp_path: Path) -> None:
    path = tmp_path / "endless.csv"
    os.mkfifo(path)  # reading it never ends
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with running_server(temporary, str(path)) as server:
        host, port = server.address
        with socket.create_connection((host, port)) as connection:
            head = f"POST /{server.token}/open/0 HTTP/1.1\r\nHost: {host}:{port}\r\nOrigin: http://{host}:{port}\r\n"
            connection.sendall(f"{head}Content-Length: 0\r\n\r\n".encode())
            with path.open("wb"):  # waits until the server has opened the other end
                server.process.send_signal(signal.SIGINT)
                assert server.process.wait(20) == 0


def test_other_addresses_are_announced_with_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "baserate", "app", "--no-open", "--host", "0.0.0.0"]
    process = subprocess.Popen(
        command, env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert "other machines can connect" in errors
    assert process.returncode == 0
