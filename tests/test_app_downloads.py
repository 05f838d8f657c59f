"""For every kind of file and knowledge: the downloads are what the shown commands write; 2 minutes on one core."""

from __future__ import annotations

import html
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from app_support import Server, animals, run_shown, running_server

for package in ("starlette", "uvicorn"):
    pytest.importorskip(package)

pytestmark = pytest.mark.stress

ALL = [{"class": name, "low": share} for name, share in (("cat", "20"), ("dog", "30"), ("owl", "50"))]
ONE = [{"class": "p_fraud", "low": "2,5"}]


def entries(kind: str, given: list[dict[str, str]], **others: Any) -> dict[str, Any]:
    return {"kind": kind, "entries": given, **others}


CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {  # file, changed columns, form
    "rates of these rows": ("animals.csv", {}, entries("number", ALL)),
    "rates of the population": ("animals.csv", {}, entries("population", ALL)),
    "a range": ("animals.parquet", {}, entries("range", [{"class": "owl", "low": "40", "high": "45"}])),
    "counts": (
        "animals.arrow",
        {},
        entries(
            "counts", [{"class": "cat", "low": "12"}, {"class": "dog", "low": "1 088"}, {"class": "owl", "low": "0"}]
        ),
    ),
    "labels of all rows": ("animals.csv", {}, entries("labels", [])),
    "labels of some rows": ("some.csv", {}, entries("labels", [])),
    "Brier score": ("animals.csv", {}, entries("number", ALL, loss="brier")),
    "one column": ("fraud.csv", {}, entries("number", ONE)),
    "one column and counts": (
        "fraud.csv",
        {},
        entries("counts", [{"class": "p_fraud", "low": "5"}, {"class": "not p_fraud", "low": "95"}]),
    ),
    "decimal commas": ("german.csv", {}, entries("number", ALL)),
    "1000 classes": ("many.parquet", {}, entries("number", [{"class": "007", "low": "2"}])),
    "rates of 20 of 1000 classes": (
        "many.parquet",
        {},
        entries("number", [{"class": f"{j:03d}", "low": "0.2"} for j in range(20)]),
    ),
    "a matrix": ("matrix.npy", {}, entries("number", [{"class": "class 1", "low": "60"}])),
    "weights, zeros, percentages": (
        "percent.csv",
        {
            "roles": {"p_cat": "probability", "p_dog": "probability", "w": "weight"},
            "normalize": True,
            "has_zeros": True,
        },
        entries("number", [{"class": "cat", "low": "20"}]),
    ),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    table, rng = animals(), np.random.default_rng(0)
    table.to_csv(folder / "animals.csv", index=False)
    table.to_parquet(folder / "animals.parquet", index=False)
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    with pa.ipc.new_file(folder / "animals.arrow", arrow.schema) as out:
        out.write_table(arrow)
    table.assign(y=table["y"].where(rng.random(len(table)) < 0.3)).to_csv(folder / "some.csv", index=False)
    table.drop(columns=["y"]).to_csv(folder / "german.csv", index=False, sep=";", decimal=",")
    pd.DataFrame({"id": range(200), "p_fraud": table["p_cat"][:200]}).to_csv(folder / "fraud.csv", index=False)
    many = rng.dirichlet(np.ones(1000), size=150).astype(np.float32)
    pd.DataFrame(many, columns=[f"p_{j:03d}" for j in range(1000)]).to_parquet(folder / "many.parquet", index=False)
    np.save(folder / "matrix.npy", rng.dirichlet(np.ones(3), size=100))
    cat = (100 * rng.beta(0.2, 0.2, 300)).round(1)
    percent = pd.DataFrame({"p_cat": cat, "p_dog": (100 - cat).round(1), "w": rng.integers(1, 5, 300)})
    percent.to_csv(folder / "percent.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def server(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("temporary")) as started:
        yield started


def post(server: Server, path: str, value: Any) -> dict[str, Any]:
    """The answer of a request, and of the job that it starts."""
    status = json.loads(server.ask(path, "POST", json.dumps(value))[1])
    while status.get("state") in ("waiting", "running"):
        time.sleep(0.1)
        status = json.loads(server.ask(f"/job/{status['job']}")[1])
    assert "problem" not in status, status
    assert status.get("state", "done") == "done", status
    return dict(status)


def uploaded(server: Server, path: Path) -> str:
    """Upload a file. Returns the path of its page."""
    answer = json.loads(server.ask(f"/upload?name={path.name}", "POST", path.read_bytes())[1])
    return str(answer["url"]).removeprefix(f"/{server.token}")


def links_in(text: str, server: Server) -> dict[str, str]:
    """The paths of files that a part of the page offers, by their names."""
    found = re.findall(r'href="([^"]+)" download="([^"]+)"', text)
    return {html.unescape(name): path.removeprefix(f"/{server.token}") for path, name in found}


def assert_downloads_are_those_of_commands(server: Server, page: str, form: dict[str, Any], folder: Path) -> None:
    """Run the commands that the page shows in a folder that has the inputs, and compare what they write."""
    shown = post(server, f"{page}/exact", form)["answer"]["html"]
    commands = html.unescape(re.search(r'id="shell"[^>]*>(.*?)</pre>', shown, re.DOTALL)[1]).splitlines()  # type: ignore[index]  # fails the test
    links = links_in(post(server, f"{page}/write", form)["answer"]["html"], server)
    assert {"shift.json", "report.html"} < set(links)
    assert ("adjust.sql" in links) == ("columns" in commands[0])  # a query needs names of columns
    downloads = {name: server.ask(path)[1] for name, path in links.items()}
    for name, path in links_in(shown, server).items():  # the commands need these files
        (folder / name).write_bytes(server.ask(path)[1])
    run_shown(commands, folder)
    for name, content in downloads.items():
        assert (folder / name).read_bytes() == content, name


@pytest.mark.parametrize("case", CASES)
def test_downloads_are_what_the_shown_commands_write(case: str, server: Server, files: Path, tmp_path: Path) -> None:
    name, columns, form = CASES[case]
    page = uploaded(server, files / name)
    if columns:
        post(server, f"{page}/columns", columns)
    (tmp_path / name).write_bytes((files / name).read_bytes())
    assert_downloads_are_those_of_commands(server, page, form, tmp_path)


def test_downloads_of_estimated_rates(server: Server, files: Path, tmp_path: Path) -> None:
    page = uploaded(server, files / "animals.parquet")
    content = animals(1500, seed=5).to_csv(index=False).encode()
    for name, data in {"validation.csv": content, "animals.parquet": (files / "animals.parquet").read_bytes()}.items():
        (tmp_path / name).write_bytes(data)
    server.ask(f"{page}/file/validation?name=validation.csv", "POST", content)
    form = entries("validation", [], validation_labels="y")
    assert_downloads_are_those_of_commands(server, page, form, tmp_path)


@pytest.mark.parametrize("kind", ["rates", "counts", "population"])
def test_downloads_of_rates_per_group(kind: str, server: Server, files: Path, tmp_path: Path) -> None:
    rates = pd.DataFrame({"cat": [0.2, 0.3, 0.4], "dog": [0.5, 0.3, 0.3], "owl": [0.3, 0.4, 0.3]})
    table = (rates * 100).astype(int) if kind == "counts" else rates
    content = table.assign(region=["north", "south", "east"]).to_csv(index=False).encode()
    page = uploaded(server, files / "animals.csv")
    server.ask(f"{page}/file/groups?name=regions.csv", "POST", content)
    (tmp_path / "animals.csv").write_bytes((files / "animals.csv").read_bytes())
    (tmp_path / "regions.csv").write_bytes(content)
    assert_downloads_are_those_of_commands(server, page, entries("groups", [], by="region", rates_kind=kind), tmp_path)


@pytest.mark.parametrize("name", ["rates.csv", "rates.json"])
def test_downloads_of_rates_in_a_file(name: str, server: Server, files: Path, tmp_path: Path) -> None:
    csv = b"class,rate\ncat,0.2\ndog,0.3\nowl,0.5\n"
    content = csv if name.endswith("csv") else b'{"cat": 0.2, "dog": 0.3, "owl": 0.5}'
    page = uploaded(server, files / "animals.csv")
    answer = json.loads(server.ask(f"{page}/file/rates?name={name}", "POST", content)[1])
    for saved, data in {"animals.csv": (files / "animals.csv").read_bytes(), answer["name"]: content}.items():
        (tmp_path / saved).write_bytes(data)
    assert_downloads_are_those_of_commands(server, page, entries("file", []), tmp_path)
