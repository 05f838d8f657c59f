"""Mistakes that are made when class rates are estimated, in Python and on the command line, and the message of each.

    python tools/bad_estimates.py            # a Markdown table of all calls and messages

The tests run the same calls, and compare the messages with those that are expected here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from bad_calls import BadCall, print_table
from sklearn.linear_model import LogisticRegression

import baserate as br

CALLS: tuple[BadCall, ...] = (
    BadCall(
        "br.estimate(p)",
        "BadOption: probs_val= is missing: pass predictions of labelled validation rows and their labels "
        "(probs_val= and y_val=), or labelled rows of the batch itself (labelled=)",
    ),
    BadCall(
        "br.estimate(p, probs_val=p_val)",
        "BadOption: y_val= is missing: pass predictions of labelled validation rows and their labels "
        "(probs_val= and y_val=), or labelled rows of the batch itself (labelled=)",
    ),
    BadCall(
        "br.estimate(p_val, probs_val=p_val, y_val=y_val)",
        "BadOption: probs_new and probs_val are the same rows, whose class rates are those of y_val; pass "
        "predictions of the new rows as probs_new",
    ),
    BadCall(
        "br.estimate(np.vstack([p, p_val]), probs_val=p_val, y_val=y_val)",
        "BadOption: the 600 validation rows are also rows of the batch; pass only the other rows as "
        "probs_new, or, if the labelled rows were drawn at random from the batch, pass their numbers and "
        "labels as labelled=",
    ),
    BadCall(
        "br.estimate(p_val, probs_val=p, y_val=y_val)",
        "BadLabels: y_val has shape (600,), but probs_val has 900 rows; that is the number of rows of the "
        "batch: are the batch and the validation rows swapped?",
    ),
    BadCall(
        "br.estimate(p, probs_val=p_val, y_val=y_val[:-1])",
        "BadLabels: y_val has shape (599,), but probs_val has 600 rows",
    ),
    BadCall(
        "br.estimate(p, probs_val=p_val[:, :2] / p_val[:, :2].sum(axis=1, keepdims=True), y_val=y_val % 2)",
        "BadProbabilities: probs_val has 2 classes, but the batch has 3; pass predictions of the same classifier",
    ),
    BadCall(
        "br.estimate(p, probs_val=p_val, y_val=y_val + 1)",
        "BadLabels: y_val[0] is 3, but the columns are numbered 0 to 2",
    ),
    BadCall(
        "br.estimate(p, probs_val=p_val, y_val=names[y_val])",
        "BadLabels: y_val contains 'cat', but the columns have no names; pass column numbers 0 to 2, "
        "for instance np.searchsorted(classes, y) if classes is the sorted list of class names",
    ),
    BadCall(
        "br.estimate(frame, probs_val=val, y_val=np.where(y_val == 0, 'wasp', names[y_val]))",
        "BadLabels: y_val contains 'wasp', which is not among the classes 'ant', 'bee', 'cat'",
    ),
    BadCall(
        "br.estimate(frame, probs_val=val.rename(columns={'ant': 'wasp'}), y_val=names[y_val])",
        "BadProbabilities: probs_val has no column 'ant'; the columns 'ant', 'bee', 'cat' are needed, but it "
        "has 'wasp', 'bee', 'cat'",
    ),
    BadCall(
        "br.estimate(frame, probs_val=val, y_val='label')",
        "BadOption: y_val is 'label', but probs_val has no column with this name; it has 'ant', 'bee', 'cat'",
    ),
    BadCall(
        "br.estimate(p, probs_val=p_val, y_val='y')",
        "BadOption: y_val is 'y', but probs_val has no column with this name",
    ),
    BadCall(
        "br.estimate(p, probs_val=p_val, y_val=np.where(y_val == 0, np.nan, y_val))",
        "BadLabels: y_val[3] is NaN; give every validation row a label, or drop the rows without one",
    ),
    BadCall(
        "br.estimate(p, probs_val=p_val, y_val=y_val + 0.5)",
        "BadLabels: y_val contains 2.5, but the columns have no names; pass column numbers 0 "
        "to 2, for instance np.searchsorted(classes, y) if classes is the sorted list of class names",
    ),
    BadCall(
        "br.estimate(p, probs_val=p_val, y_val=np.where(y_val == 0, np.inf, y_val))",
        "BadLabels: y_val[3] is inf, but the columns are numbered 0 to 2",
    ),
    BadCall(
        "br.estimate(p, probs_val=p_val, y_val=np.where(y_val == 0, 1e30, y_val))",
        "BadLabels: y_val[3] is 1e+30, but the columns are numbered 0 to 2",
    ),
    BadCall(
        "br.estimate(p, probs_val=p_val, y_val=[10**30, *y_val[1:].tolist()])",
        "BadLabels: y_val contains 1000000000000000000000000000000, but the columns have no names; pass column "
        "numbers 0 to 2, for instance np.searchsorted(classes, y) if classes is the sorted list of class names",
    ),
    BadCall(
        "br.estimate(p[:, 0], probs_val=p_val[:, 0], y_val=np.where(y_val == 0, 'Spam', 'Ham'), "
        "classes=['ham', 'spam'])",
        "BadLabels: y_val contains 'Ham', 'Spam', which is not among the classes 'ham', 'spam'",
    ),
    BadCall(
        "br.estimate(p, probs_val=p_val, y_val=np.zeros_like(y_val), method='moments')",
        "BadLabels: class 1 has 0 validation rows, but moments need at least 2 of each class; pass "
        "method='exact', or more validation rows",
    ),
    BadCall(
        "br.estimate(p, probs_val=p_val[:3], y_val=[0, 1, 2], method='moments')",
        "BadLabels: class 0 has 1 validation row, but moments need at least 2 of each class; pass "
        "method='exact', or more validation rows",
    ),
    BadCall(
        "br.estimate(np.where(p > 0.9, np.nan, p), probs_val=p_val, y_val=y_val)",
        "BadProbabilities: row 1, column 2 is nan (662 of the 900 rows checked together have such entries); "
        "probabilities must be finite",
    ),
    BadCall(
        "br.estimate(p, probs_val=np.where(p_val > 0.9, np.nan, p_val), y_val=y_val)",
        "BadProbabilities: row 0, column 2 is nan (435 of the 600 rows checked together have such entries); "
        "probabilities must be finite",
    ),
    BadCall(
        "br.estimate(2 * p, probs_val=p_val, y_val=y_val)",
        "BadProbabilities: 900 of the 900 rows starting at row 0 do not sum to 1; the worst is row 47, which "
        "sums to 2. Pass normalize=True to divide each row by its sum, or from_logits=True if these are "
        "logits",
    ),
    BadCall(
        "br.estimate(p, probs_val=np.log(p_val), y_val=y_val)",
        "BadProbabilities: row 0, column 0 is -4.189028937882693 (600 of the 600 rows checked together have "
        "such entries); probabilities must not be negative; for logits or log probabilities pass "
        "from_logits=True",
    ),
    BadCall(
        "br.estimate(p, probs_val=p_val, y_val=y_val, confidence=95)",
        "BadOption: confidence must be a number between 0 and 1, such as 0.95, not 95",
    ),
    BadCall(
        "br.estimate(p, probs_val=p_val, y_val=y_val, method='em')",
        "BadOption: method must be one of 'auto', 'moments', 'exact', not 'em'",
    ),
    BadCall(
        "br.estimate(p, probs_val=p_val, y_val=y_val, on_refuted='ignore')",
        "BadOption: on_refuted must be one of 'raise', 'everything', not 'ignore'",
    ),
    BadCall(
        "br.estimate(blurred, probs_val=p_val, y_val=y_val)",
        "AssumptionRefuted: predictions within each class are not distributed as in the validation data, so "
        "the class rates cannot be estimated from them: the p-value of the test is below 0.0001. Label a few "
        "random rows of the batch and pass them as labelled=, collect validation rows that are like the "
        "batch, or pass on_refuted='everything' to leave predictions as they are",
    ),
    BadCall(
        "br.estimate(constant, probs_val=p_val, y_val=y_val, method='exact')",
        "AssumptionRefuted: predictions within each class are not distributed as in the validation data, so "
        "the class rates cannot be estimated from them: no class rates explain how often each class is "
        "predicted. Label a few random rows of the batch and pass them as labelled=, collect validation rows "
        "that are like the batch, or pass on_refuted='everything' to leave predictions as they are",
    ),
    BadCall(
        "br.adjust(p[:50], rates)",
        "BadRates: these rates were estimated for a batch of 900 rows, but are used for 50 rows; "
        "estimate the rates of these rows with br.estimate",
    ),
    BadCall(
        "br.adjust(blurred, rates)",
        "BadRates: these rates were estimated for other predictions: their mean for class 2 was 0.620026, "
        "but here it is 0.419832; estimate the rates of these rows with br.estimate, or call without_batch() "
        "on the rates if these are other predictions of the same rows",
    ),
    BadCall(
        "br.adjust(p, rates, sample_weight=np.arange(1, len(p) + 1))",
        "BadRates: these rates were estimated for a batch of 900 rows, but are used for 675 rows (unequal weights "
        "count as fewer rows); leave sample_weight= out, or estimate the rates of these rows with br.estimate",
    ),
    BadCall(
        "br.adjust(p[:, :2] / p[:, :2].sum(axis=1, keepdims=True), rates)",
        "BadRates: the rates were estimated for 3 classes, but there are 2",
    ),
    BadCall(
        "br.AdjustedClassifier(LogisticRegression(), estimate=True).fit(x, single)",
        "BadLabels: class 2 has 1 row, but estimate needs at least 2 rows of each class",
    ),
    BadCall(
        "br.AdjustedClassifier(LogisticRegression(), estimate=5).fit(x, y_val)",
        "BadOption: estimate must be True, False or the share of rows to hold out, such as 0.2, not 5",
    ),
    BadCall(
        "br.AdjustedClassifier(LogisticRegression()).fit(x, y_val).adapt(x)",
        "BadRates: adapt needs the class rates of the target population: pass adapt(X, rates) or "
        "AdjustedClassifier(rates=...), or let it estimate them: AdjustedClassifier(estimate=True)",
    ),
    BadCall(
        "br.Rates.load(folder / 'new.csv')",
        "BadFile: new.csv is not a JSON file: Expecting value: line 1 column 1 (char 0)",
    ),
    BadCall(
        "baserate rates new.csv --validation val.csv --labels z",
        "Error: val.csv has no column 'z' with labels; its columns are 'ant', 'bee', 'cat', 'y'",
    ),
    BadCall(
        "baserate rates new.csv --validation new.csv --labels y",
        "Error: new.csv is both IN and --validation; the validation data must be other rows than those whose rates are "
        "to be estimated",
    ),
    BadCall(
        "baserate rates blurred.csv --validation val.csv --labels y",
        "Error: predictions within each class are not distributed as in the validation data, so the class "
        "rates cannot be estimated from them: the p-value of the test is below 0.0001. Label a few random "
        "rows of the batch and pass them as labelled= of br.estimate in Python, collect validation rows that "
        "are like the batch, or pass --on-refuted everything to leave predictions as they are",
    ),
    BadCall(
        "baserate adjust new.csv --rates shift.json --out out.csv",
        "Error: shift.json is not a saved set of class rates: it is a saved adjustment, which --save-shift wrote; pass "
        "a file that baserate rates --out wrote",
    ),
    BadCall(
        "baserate certify new.csv --shift rates.json --rates rates.json",
        "Error: rates.json is not a saved adjustment: it is a saved set of class rates, which baserate rates --out "
        "wrote; pass a file that --save-shift wrote",
    ),
    BadCall(
        "baserate adjust blurred.csv --rates rates.json --out out.csv",
        "Error: these rates were estimated for other predictions: their mean for class 'cat' was 0.620026, "
        "but here it is 0.419832; estimate the rates of these rows with baserate rates, or call "
        "without_batch() in Python on the rates if these are other predictions of the same rows",
    ),
)


def inputs(folder: Path) -> dict[str, Any]:
    """The names that the calls use; files for the command line are written to a folder."""
    rng = np.random.default_rng(0)
    names = np.array(["ant", "bee", "cat"])

    def predictions(y: Any, signal: float = 2.0) -> Any:
        z = rng.normal(size=(len(y), 3))
        z[np.arange(len(y)), y] += signal
        p = np.exp(3 * z)
        return (p / p.sum(axis=1, keepdims=True)).round(6) + 0.0

    def normalized(p: Any) -> Any:
        return np.maximum(p, 1e-6) / np.maximum(p, 1e-6).sum(axis=1, keepdims=True)

    y_val, y = rng.integers(3, size=600), rng.choice(3, 900, p=[0.1, 0.2, 0.7])
    p_val, p, blurred = (normalized(predictions(*given)) for given in ((y_val,), (y,), (y, 0.5)))
    rates = br.estimate(p, probs_val=p_val, y_val=y_val)
    val, frame = pd.DataFrame(p_val, columns=names), pd.DataFrame(p, columns=names)
    frame.to_csv(folder / "new.csv", index=False)
    pd.DataFrame(blurred, columns=names).to_csv(folder / "blurred.csv", index=False)
    val.assign(y=names[y_val]).to_csv(folder / "val.csv", index=False)
    br.estimate(frame, probs_val=val, y_val=names[y_val]).save(folder / "rates.json")
    br.adjust(frame, {"ant": 0.1, "bee": 0.2, "cat": 0.7}).save(folder / "shift.json")
    return {
        "br": br,
        "np": np,
        "LogisticRegression": LogisticRegression,
        "p": p,
        "p_val": p_val,
        "y_val": y_val,
        "names": names,
        "frame": frame,
        "val": val,
        "blurred": blurred,
        "constant": np.tile([0.98, 0.01, 0.01], (900, 1)),
        "rates": rates,
        "x": rng.normal(size=(600, 2)),
        "single": np.concatenate([[2], np.tile([0, 1], 300)[1:]]),
        "folder": folder,
    }


def main() -> None:
    """Print the table."""
    print_table(CALLS, inputs)


if __name__ == "__main__":
    main()
