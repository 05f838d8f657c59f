"""The page in the browser, from the choice of a file to the downloads."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from app_support import (
    CLASSES,
    Server,
    Watched,
    animals,
    environment,
    run_here,
    run_shown,
    running_browser,
    running_server,
)

import baserate as br
from baserate.report import sentences
from baserate.result.facts import facts

for package in ("starlette", "uvicorn"):
    pytest.importorskip(package)

NASTY = "<img src=x onerror=alert(1)>"
AXE = os.environ.get("BASERATE_AXE")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the tests."""
    folder = tmp_path_factory.mktemp("files")
    table = animals()
    table.to_csv(folder / "animals.csv", index=False)
    table.drop(columns=["y"]).to_parquet(folder / "animals.parquet", index=False)
    german = table.drop(columns=["y"]).to_csv(sep=";", decimal=",", index=False)
    (folder / "german.csv").write_text(german, encoding="utf-8")
    pd.DataFrame(
        {"region": ["north", "south", "east"], "cat": [0.2, 0.3, 0.4], "dog": [0.5, 0.3, 0.3], "owl": 0.3}
    ).assign(owl=[0.3, 0.4, 0.3]).to_csv(folder / "regions.csv", index=False)
    pd.DataFrame({"id": range(200), "p_fraud": animals(200)["p_cat"]}).to_csv(folder / "fraud.csv", index=False)
    rng = np.random.default_rng(3)
    many = rng.dirichlet(np.ones(1000), size=150).astype(np.float32)
    pd.DataFrame(many, columns=[f"p_{j:03d}" for j in range(1000)]).to_parquet(folder / "many.parquet", index=False)
    np.save(folder / "matrix.npy", rng.dirichlet(np.ones(3), size=100))
    nasty = animals(100).rename(columns={"p_cat": f"p_{NASTY}", "p_dog": 'p_a"b', "region": "<b>region</b>"})
    nasty.drop(columns=["y"]).to_csv(folder / "nasty.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def server(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    named = [str(files / name) for name in ("animals.csv", "animals.parquet", "many.parquet", "fraud.csv")]
    with running_server(tmp_path_factory.mktemp("temporary"), *named) as started:
        yield started


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with running_browser() as opened:
        yield opened


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Any]:
    """A page that contacts no other host, prints nothing on the console, and opens no dialog."""
    context = browser.new_context(viewport={"width": 1400, "height": 900}, accept_downloads=True)
    watched = Watched(context.new_page())
    watched.watch("http://{}:{}".format(*server.address))
    watched.page.set_default_timeout(120_000)
    watched.page.goto(server.url)
    yield watched.page
    context.close()
    assert watched.problems == []


def open_named(page: Any, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()
    page.wait_for_selector("#rates-form")


def upload(page: Any, path: Path) -> None:
    page.set_input_files("#file", str(path))
    page.wait_for_selector("#rates-form")


def choose(page: Any, kind: str) -> None:
    page.check(f"input[name=kind][value={kind}]", force=True)


def enter(page: Any, entries: dict[str, str], side: str = "low") -> None:
    for name, text in entries.items():
        page.fill(f".panel:not([hidden]) .rate[data-class='{name}'] .{side}", text)


def exact_headline(page: Any, but_not: str = "") -> str:
    """The guarantee of the exact answer, as soon as it is another one than before."""
    page.wait_for_function(
        """old => { const answer = document.querySelector('.answer[data-exact=yes]');
        return answer && answer.querySelector('.code-part')
        && answer.querySelector('.headline').textContent.trim() !== old }""",
        arg=but_not,
    )
    return str(page.inner_text(".headline"))


def headline(result: Any) -> str:
    return sentences.guarantee(facts(result))["headline"]


def commands_of(page: Any) -> list[str]:
    return str(page.inner_text("#shell")).splitlines()


def write_and_download(page: Any, folder: Path) -> list[str]:
    """Press the button, and download all files."""
    page.click("#write")
    page.wait_for_selector("#downloads a", timeout=120_000)
    names = []
    for link in page.query_selector_all("#downloads a"):
        with page.expect_download() as started:
            link.click()
        names.append(started.value.suggested_filename)
        started.value.save_as(folder / names[-1])
    return names


def assert_same_files(names: list[str], downloaded: Path, made: Path) -> None:
    for name in names:
        assert (downloaded / name).read_bytes() == (made / name).read_bytes(), name


def test_csv_file_from_upload_to_downloads(page: Any, files: Path, tmp_path: Path) -> None:
    upload(page, files / "animals.csv")
    assert "probabilities of the classes cat, dog, owl" in page.inner_text("#columns").replace("\n", " ")
    enter(page, {"cat": "20", "dog": "30,5 %", "owl": "49.5"})  # decimal comma and point
    shown = exact_headline(page)
    result = br.adjust(files / "animals.csv", {"cat": 0.2, "dog": 0.305, "owl": 0.495}, columns="p_*")
    assert shown == headline(result)
    assert page.inner_text("#shows") == "Exact answer for all 400 rows."
    assert re.search(r"about 2\d % of the loss.*\d+ of 400 rows .* \(\d+\.\d\s%\)", page.inner_text(".guarantee"), re.S)
    downloaded, shell, python = (tmp_path / name for name in ("downloaded", "shell", "python"))
    for folder in (downloaded, shell, python):
        folder.mkdir()
        (folder / "animals.csv").write_bytes((files / "animals.csv").read_bytes())
    names = write_and_download(page, downloaded)
    assert names == ["animals-adjusted.csv", "report.html", "shift.json", "adjust.sql"]
    run_shown(commands_of(page), shell)
    assert_same_files(names, downloaded, shell)
    code = page.inner_text("#python")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=python, env=environment(python), capture_output=True, text=True, check=True
    )
    assert_same_files(["animals-adjusted.csv", "shift.json"], downloaded, python)
    assert done.stdout.strip() == (downloaded / "adjust.sql").read_text().strip().removesuffix(";")
    assert (
        pd.read_csv(downloaded / "animals-adjusted.csv", dtype={"id": str})["id"].tolist() == animals()["id"].tolist()
    )


def test_parquet_file_with_a_range(page: Any, files: Path, tmp_path: Path) -> None:
    open_named(page, "animals.parquet")
    choose(page, "range")
    enter(page, {"owl": "40"})
    enter(page, {"owl": "45"}, "high")
    shown = exact_headline(page)
    bounds = br.Rates.between({"owl": 0.4}, {"owl": 0.45})
    assert shown == headline(br.adjust(files / "animals.parquet", bounds, columns="p_*"))
    assert "40.0 % to 45.0 %" in page.inner_text("table.rates")
    names = write_and_download(page, tmp_path)
    made = tmp_path / "shell"
    made.mkdir()
    (made / "animals.parquet").write_bytes((files / "animals.parquet").read_bytes())
    run_here(commands_of(page), made)
    assert_same_files(names, tmp_path, made)


def test_file_with_groups_has_a_table_that_can_be_searched(page: Any, files: Path, tmp_path: Path) -> None:
    open_named(page, "animals.csv")
    choose(page, "groups")
    assert page.input_value("select[name=by]") == "region"
    page.set_input_files("[data-purpose=groups] input", str(files / "regions.csv"))
    exact_headline(page)
    rows = page.locator("details.all tbody tr")
    assert rows.count() == 9
    page.fill("details.all input[type=search]", "sou")
    assert [row.inner_text().split("\t")[0] for row in rows.all() if row.is_visible()] == ["south"] * 3
    before = page.inner_text(".headline")
    assert commands_of(page)[0].startswith("baserate adjust animals.csv --by region --rates-file regions.csv")
    page.select_option(".group-choice", "south")  # what if the south had other rates
    enter(page, {"cat": "50", "dog": "30", "owl": "20"})
    exact_headline(page, before)
    assert "--rates-file regions-changed.csv" in commands_of(page)[0]
    names = write_and_download(page, tmp_path)
    assert (tmp_path / "regions-changed.csv").read_text().splitlines()[2] == "south,0.5,0.3,0.2"
    made = tmp_path / "shell"
    made.mkdir()
    (made / "animals.csv").write_bytes((files / "animals.csv").read_bytes())
    (made / "regions-changed.csv").write_bytes((tmp_path / "regions-changed.csv").read_bytes())
    run_here(commands_of(page), made)
    assert_same_files(names, tmp_path, made)


def test_a_table_per_group_can_be_changed_after_the_page_was_reloaded(page: Any, files: Path) -> None:
    open_named(page, "animals.csv")
    choose(page, "groups")
    page.set_input_files("[data-purpose=groups] input", str(files / "regions.csv"))
    before = exact_headline(page)
    page.reload()
    choose(page, "groups")
    assert exact_headline(page) == before
    page.select_option(".group-choice", "south")
    enter(page, {"cat": "50", "dog": "30", "owl": "20"})
    assert exact_headline(page, before) != before


def test_numbers_of_a_group_keep_their_digits_and_can_be_reset(page: Any, tmp_path: Path) -> None:
    table = "region,cat,dog,owl\nnorth,0.123456,0.5,0.376544\nsouth,0.3,0.3,0.4\neast,0.4,0.3,0.3\n"
    (tmp_path / "regions.csv").write_text(table)
    open_named(page, "animals.csv")
    choose(page, "groups")
    page.set_input_files("[data-purpose=groups] input", str(tmp_path / "regions.csv"))
    before = exact_headline(page)
    fields = [page.locator(f".what-if .rate[data-class={name}] .low") for name in CLASSES]
    assert [field.input_value() for field in fields] == ["12.3456", "50", "37.6544"]
    fields[1].fill("40")
    fields[2].fill("47.6544")
    changed = exact_headline(page, before)
    assert "--rates-file regions-changed.csv" in commands_of(page)[0]
    with page.expect_download() as started:
        page.click("#code a[download='regions-changed.csv']")
    assert started.value.path().read_text().splitlines()[1] == "north,0.123456,0.4,0.476544"
    page.click(".reset-group")
    assert exact_headline(page, changed) == before
    assert [field.input_value() for field in fields] == ["12.3456", "50", "37.6544"]
    assert "--rates-file regions.csv" in commands_of(page)[0]


def test_an_answer_to_earlier_entries_is_not_called_exact(page: Any) -> None:
    held: list[Any] = []
    open_named(page, "animals.csv")
    choose(page, "range")
    enter(page, {"owl": "40"})
    exact_headline(page)
    page.wait_for_function("() => document.querySelector('#further h3') && !document.querySelector('.old-answer')")
    for path in ("**/exact", "**/quick"):
        page.route(path, lambda route: held.append(route))
    enter(page, {"owl": "30"})
    page.wait_for_selector(".answer[data-exact=old]")
    page.wait_for_selector("#shows >> text=Out of date: this is the answer to the earlier entries.")
    assert page.is_disabled("#write")
    assert not page.is_visible("#shell")  # the commands are those for the earlier entries
    assert page.evaluate("getComputedStyle(document.querySelector('#further'), '::before').content").startswith('"For')
    page.wait_for_timeout(500)
    page.unroute("**/exact")
    for one in held:
        one.continue_()
    exact_headline(page)
    assert page.inner_text("#shows") == "Exact answer for all 400 rows."


def test_a_file_that_is_refused_is_explained_beside_its_field(page: Any, files: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.csv").write_text("region,cat\nnorth,much\n")
    open_named(page, "animals.csv")
    choose(page, "groups")
    page.set_input_files("[data-purpose=groups] input", str(files / "regions.csv"))
    before = exact_headline(page)
    page.set_input_files("[data-purpose=groups] input", str(tmp_path / "broken.csv"))
    page.wait_for_selector("[data-purpose=groups] .problem:not([hidden])")
    assert "The file regions.csv, which you chose before, is still used." in page.inner_text("[data-purpose=groups]")
    assert page.inner_text("[data-purpose=groups] .chosen") == "Chosen: regions.csv"
    assert page.inner_text(".headline") == before


def test_labels_give_the_rates_and_a_comparison(page: Any, files: Path) -> None:
    open_named(page, "animals.csv")
    choose(page, "labels")
    page.click(".use-labels")
    shown = exact_headline(page)
    rates = animals()["y"].value_counts(normalize=True).to_dict()
    assert shown == headline(br.adjust(files / "animals.csv", rates, columns="p_*"))
    page.wait_for_selector("#further table")
    text = page.inner_text("#further")
    assert "Comparison of procedures" in text
    assert "adjusted for log loss" in text
    assert "The rates were counted in the column y, so they are right if its labels are." in text
    assert "Which rate is worth knowing better" not in page.inner_text("#answer")


def test_validation_file_gives_estimated_rates(page: Any, files: Path, tmp_path: Path) -> None:
    animals(1500, seed=5).to_csv(tmp_path / "validation.csv", index=False)
    open_named(page, "animals.parquet")
    choose(page, "validation")
    page.set_input_files("[data-purpose=validation] input", str(tmp_path / "validation.csv"))
    page.fill("input[name=validation_labels]", "y")
    exact_headline(page)
    estimated, adjusted, _ = commands_of(page)
    assert estimated.startswith("baserate rates animals.parquet --validation validation.csv --labels y")
    assert "--rates rates.json" in adjusted
    (tmp_path / "animals.parquet").write_bytes((files / "animals.parquet").read_bytes())
    run_here([estimated, adjusted], tmp_path)


def test_file_with_1000_classes(page: Any, files: Path) -> None:
    open_named(page, "many.parquet")
    page.fill(".panel:not([hidden]) .add-name", "007")
    page.keyboard.press("Enter")
    enter(page, {"007": "2"})
    shown = exact_headline(page)
    assert shown == headline(br.adjust(files / "many.parquet", br.Rates.parse("007=0.02"), columns="p_*"))
    assert "12 of 1000 classes" in page.inner_text("#answer")
    page.click("details.all summary")
    page.fill("details.all input[type=search]", "99")
    assert page.locator("details.all tbody tr:visible").count() == 19
    page.fill(".panel:not([hidden]) .add-name", "cat")
    page.keyboard.press("Enter")
    assert page.inner_text("#problem") == "There is no class “cat”."


def test_decimal_commas_one_column_and_matrices(page: Any, server: Server, files: Path) -> None:
    upload(page, files / "german.csv")
    enter(page, {"cat": "20", "dog": "30"})
    exact_headline(page)
    assert "--delimiter ';' --decimal ," in commands_of(page)[0]
    page.goto(server.url)
    open_named(page, "fraud.csv")
    choose(page, "counts")
    enter(page, {"p_fraud": "12", "not p_fraud": "1 088"})
    exact_headline(page)
    assert "--rates counts:12/1100 --columns p_fraud" in commands_of(page)[0]
    page.goto(server.url)
    upload(page, files / "matrix.npy")
    enter(page, {"class 1": "60"})
    shown = exact_headline(page)
    result = br.adjust(np.load(files / "matrix.npy"), br.Rates.between([0, 0.6, 0], [1, 0.6, 1]))
    assert shown == headline(result)
    assert "--rates 0..1,0.6,0..1 --out matrix-adjusted.npy" in commands_of(page)[0]


def test_sliders_change_the_answer_and_keep_the_sum(page: Any) -> None:
    open_named(page, "animals.csv")
    enter(page, {"cat": "20", "dog": "30", "owl": "50"})
    before = exact_headline(page)
    slider = page.locator(".panel:not([hidden]) .rate[data-class=cat] .low-slider")
    slider.focus()
    for _ in range(30):
        page.keyboard.press("ArrowRight")
    values = [float(page.input_value(f".panel:not([hidden]) .rate[data-class={name}] .low")) for name in CLASSES]
    assert values == [23.0, 28.87, 48.13]
    assert exact_headline(page, before) != before
    assert "cat=0.23,dog=0.2887,owl=0.4813" in commands_of(page)[0]


def test_columns_can_be_corrected(page: Any, files: Path) -> None:
    open_named(page, "animals.csv")
    for name, role in {"p_cat": "other", "p_owl": "other", "y": "other"}.items():
        page.select_option(f"select[data-column='{name}']", role)
    page.click("#columns-form button[type=submit]")
    page.wait_for_selector(".rate[data-class='p_dog']")
    enter(page, {"p_dog": "25"})
    shown = exact_headline(page)
    assert shown == headline(br.adjust(files / "animals.csv", 0.25, columns=["p_dog"]))


def test_labels_after_many_columns_can_be_corrected(page: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.dirichlet(np.ones(60), 90), columns=[f"p_{j:02d}" for j in range(60)])
    table.assign(y=[f"{j % 60:02d}" for j in range(90)]).to_csv(tmp_path / "many.csv", index=False)
    upload(page, tmp_path / "many.csv")
    assert page.input_value("select[data-column=y]") == "label"
    assert "21 more columns with probabilities are not shown" in page.inner_text("#columns")
    page.select_option("select[data-column=y]", "other")
    page.click("#columns-form button[type=submit]")
    page.wait_for_function("() => !document.querySelector('#columns').textContent.includes('True classes')")
    assert "60 columns have the probabilities" in page.inner_text("#columns")


def test_what_is_wrong_is_said_in_words(page: Any, files: Path, tmp_path: Path) -> None:
    open_named(page, "animals.csv")
    enter(page, {"cat": "80", "dog": "30", "owl": "5"})
    page.wait_for_selector("#problem:not([hidden])")
    assert page.inner_text("#problem").startswith("The rates sum to 115 %, not to 100 %.")
    assert page.is_disabled("#write")
    enter(page, {"cat": "abc"})
    page.wait_for_function("() => document.querySelector('#problem').textContent.includes('abc')")
    (tmp_path / "broken.parquet").write_bytes(b"not a table")
    page.goto(page.url.split("/a/")[0] + "/")
    page.set_input_files("#file", str(tmp_path / "broken.parquet"))
    page.wait_for_selector("#problem:not([hidden])")
    text = page.inner_text("#problem")
    assert "its content is not" in text
    assert "/" not in text  # no path of the server


def test_answer_is_removed_when_the_fields_say_something_else(page: Any) -> None:
    open_named(page, "animals.csv")
    enter(page, {"cat": "20"})
    exact_headline(page)
    page.click("#write")
    page.wait_for_selector("#downloads a", timeout=120_000)
    enter(page, {"cat": "30"})
    assert page.locator("#downloads a").count() == 0
    exact_headline(page)
    for wrong in ("", "120"):
        enter(page, {"cat": "30"})
        page.wait_for_selector("#write:not([disabled])")
        enter(page, {"cat": wrong})
        page.wait_for_function("() => !document.querySelector('.answer, #shell')")
        assert page.is_disabled("#write")
        assert page.is_visible("#problem") == bool(wrong)


def test_quick_answers_go_on_after_one_that_cannot_be_shown(browser: Any, server: Server) -> None:
    page = browser.new_page()
    page.goto(server.url)
    open_named(page, "animals.csv")
    enter(page, {"cat": "20"})
    before = exact_headline(page)
    broken = {"answer": {"html": "<p>not an answer</p>"}}
    page.route("**/quick", lambda route: route.fulfill(json=broken), times=1)
    slider = page.locator(".panel:not([hidden]) .rate[data-class=cat] .low-slider")
    with page.expect_event("pageerror"):
        slider.press("ArrowRight")
    with page.expect_response("**/quick"):
        slider.press("ArrowRight")
    assert exact_headline(page, but_not=before) != before
    page.close()


def test_a_late_quick_answer_does_not_remove_what_is_said_about_a_newer_entry(page: Any) -> None:
    open_named(page, "animals.csv")
    late: list[Any] = []
    page.route("**/quick", lambda route: late.append(route))
    with page.expect_request("**/quick"):
        enter(page, {"cat": "30"})
    enter(page, {"cat": "300"})
    page.wait_for_selector("#problem:not([hidden])")
    with page.expect_response("**/quick"):
        late[0].continue_()
    page.unroute("**/quick")
    page.wait_for_timeout(200)
    assert "300 % is not between 0 and 100 %" in page.inner_text("#problem")


def test_numbers_of_a_german_browser(browser: Any, server: Server) -> None:
    context = browser.new_context(locale="de-DE")
    page = context.new_page()
    page.goto(server.url)
    open_named(page, "animals.csv")
    enter(page, {"cat": "20,5", "dog": "30,5", "owl": "49"})
    page.locator(".panel:not([hidden]) .rate[data-class=cat] .low-slider").focus()
    page.keyboard.press("ArrowRight")
    exact_headline(page)
    assert page.input_value(".panel:not([hidden]) .rate[data-class=cat] .low") == "20,6"
    assert "cat=0.206,dog=0.3046,owl=0.4894" in commands_of(page)[0]
    context.close()


def test_numbers_have_latin_digits_and_may_be_typed_with_others(browser: Any, server: Server) -> None:
    context = browser.new_context(locale="ar-EG")
    page = context.new_page()
    page.goto(server.url)
    open_named(page, "animals.csv")
    page.wait_for_function("() => document.querySelector('.mean').textContent")
    assert re.search("mean of the predictions: [0-9.]+ %", page.inner_text("#rates-form"))
    assert page.get_attribute(".low >> nth=0", "placeholder") is None  # it would look like a number that was entered
    enter(page, {"cat": "\u0662\u0660\u066b\u0665", "dog": "\u0663\u0660", "owl": "49,5"})
    exact_headline(page)
    assert page.inner_text(".sum") == "Sum: 100 %"
    assert "cat=0.205,dog=0.3,owl=0.495" in commands_of(page)[0]
    page.locator(".panel:not([hidden]) .rate[data-class=cat] .low-slider").focus()
    page.keyboard.press("ArrowRight")
    assert page.input_value(".panel:not([hidden]) .rate[data-class=cat] .low").replace(",", ".") == "20.6"
    context.close()


def test_dropped_file_is_opened(page: Any) -> None:
    content = animals(50).to_csv(index=False)
    dropped = page.evaluate_handle(
        """text => { const data = new DataTransfer();
        data.items.add(new File([text], "dropped.csv")); return data; }""",
        content,
    )
    page.dispatch_event("#drop", "drop", {"dataTransfer": dropped})
    page.wait_for_selector("#rates-form")
    assert page.inner_text(".file") == "dropped.csv"


def test_sensitivity_says_how_the_guarantee_changes(page: Any, files: Path) -> None:
    open_named(page, "animals.csv")
    enter(page, {"cat": "20", "dog": "30", "owl": "50"})
    exact_headline(page)
    rows = page.locator("table.rates").nth(1).locator("tbody tr").all()
    shown = {row.locator("th").inner_text(): float(row.locator("td").last.inner_text()) for row in rows}
    assert max(shown, key=lambda name: abs(shown[name])) in page.inner_text("#answer h3 + p.small strong")

    def guaranteed(step: float) -> float:
        rates = {"cat": 0.2 - step, "dog": 0.3, "owl": 0.5 + step}
        return float(br.adjust(files / "animals.csv", rates, columns="p_*").certificate.loss_reduction)

    change = guaranteed(0.005) - guaranteed(-0.005)  # of one percentage point
    assert shown["owl"] - shown["cat"] == pytest.approx(change, abs=2e-4)


def test_names_from_files_are_escaped(page: Any, files: Path, tmp_path: Path) -> None:
    upload(page, files / "nasty.csv")
    enter(page, {NASTY: "20"})
    exact_headline(page)
    page.wait_for_selector("#further h3")
    assert NASTY in page.inner_text("table.rates")
    assert page.locator("#main img, #main b").count() == 0
    names = write_and_download(page, tmp_path)
    assert "rates.json" in names
    made = tmp_path / "shell"
    made.mkdir()
    for name in ("nasty.csv", "rates.json"):
        (made / name).write_bytes(((files if name == "nasty.csv" else tmp_path) / name).read_bytes())
    run_shown(commands_of(page), made)
    assert_same_files(names, tmp_path, made)


def test_two_tabs_have_their_own_answers(page: Any, server: Server) -> None:
    other = page.context.new_page()
    other.goto(server.url)
    for one, share in ((page, "20"), (other, "60")):
        open_named(one, "animals.csv")
        enter(one, {"cat": share})
    shown = [exact_headline(page), exact_headline(other)]
    assert shown[0] != shown[1]
    other.click("#close")
    other.wait_for_selector("#drop")
    enter(page, {"cat": "21"})
    assert exact_headline(page, shown[0]) != shown[0]


def test_everything_can_be_reached_with_the_keyboard(page: Any) -> None:
    def tab_to(selector: str, most: int = 60) -> None:
        for _ in range(most):
            page.keyboard.press("Tab")
            if page.evaluate("s => document.activeElement.matches(s)", selector):
                return
        raise AssertionError(f"no tab stop matches {selector}")

    tab_to(".open")
    page.keyboard.press("Enter")
    page.wait_for_selector("#rates-form")
    tab_to("input[name=kind]")
    page.keyboard.press("ArrowDown")
    assert page.is_checked("input[value=population]")
    for name, share in zip(CLASSES, ("20", "30", "50"), strict=True):
        tab_to(f".panel:not([hidden]) .rate[data-class={name}] .low")
        page.keyboard.type(share)
    assert "falls by at least" in exact_headline(page)
    tab_to("#write")
    page.keyboard.press("Enter")
    page.wait_for_selector("#downloads a", timeout=120_000)
    tab_to("#downloads a")


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (360, "dark"),
        (1400, "light"),
        pytest.param(360, "light", marks=pytest.mark.stress),
        pytest.param(1400, "dark", marks=pytest.mark.stress),
    ],
)
def test_page_fits_every_screen(browser: Any, server: Server, width: int, scheme: str) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    page.goto(server.url)
    fits = "document.documentElement.scrollWidth <= innerWidth"
    assert page.evaluate(fits)
    open_named(page, "animals.csv")
    enter(page, {"cat": "20", "dog": "30", "owl": "50"})
    exact_headline(page)
    page.wait_for_selector("#further table")
    assert page.evaluate(fits)
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(16, 22, 28)"
    assert dark == (scheme == "dark")
    if AXE:
        page.evaluate(Path(AXE).read_text(encoding="utf-8"))
        found = page.evaluate("axe.run()")["violations"]
        serious = [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]
        assert serious == []
    context.close()


def test_progress_lines_of_commands_are_json(files: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "baserate",
        "fit",
        str(files / "animals.csv"),
        "--rates",
        "cat=0.2",
        "--columns",
        "p_*",
    ]
    settings = environment(tmp_path) | {"BASERATE_PROGRESS": "json"}
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert lines
    assert all(set(line) == {"progress", "done", "of"} for line in lines)
    assert re.search("guaranteed|falls", done.stdout)
