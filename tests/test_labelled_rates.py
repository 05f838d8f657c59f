"""Drawing rows to label, naming the labelled ones, and using the rates that come out."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import baserate as br
from baserate.errors import BadLabels, BadOption, BadProbabilities, BadRates
from baserate.estimation.labelled import estimate_from_labels
from baserate.rates import from_json

N = 400
NAMES = ["cat", "dog", "owl"]
RNG = np.random.default_rng(0)
Y = RNG.choice(3, size=N, p=[0.6, 0.3, 0.1])
PROBS = 0.7 * np.eye(3)[Y] + 0.3 * RNG.dirichlet(np.ones(3), size=N)
ROWS = RNG.permutation(N)[:100]
FRAME = pd.DataFrame(PROBS, columns=NAMES, index=[f"id{i}" for i in range(N)])


def estimated(**options: Any) -> br.Rates:
    labels = np.array(options["classes"])[Y[ROWS]] if "classes" in options else Y[ROWS]
    return estimate_from_labels(PROBS, ROWS, labels, **options)


def test_rates_are_printed_with_their_condition() -> None:
    condition = "with 95 % confidence, if the labelled rows were drawn at random from these rows"
    rates = estimated(classes=NAMES)
    assert repr(rates).startswith("Rates estimated from 100 labelled rows of a batch of 400: cat between")
    assert repr(rates).endswith(condition)
    assert rates.condition() == condition
    assert br.adjust(PROBS, rates, classes=NAMES).certificate.condition == condition
    assert "<th>at least</th>" in rates._repr_html_()
    assert condition in rates._repr_html_()


def test_the_loss_falls_by_the_guaranteed_amount() -> None:
    shifted = PROBS * [0.2, 1.0, 3.0]
    shifted /= shifted.sum(axis=1, keepdims=True)
    rates = estimate_from_labels(shifted, ROWS, Y[ROWS])
    result = br.adjust(shifted, rates)
    assert rates.contains(np.bincount(Y) / N)
    before, after = (-np.log(p[np.arange(N), Y]).mean() for p in (shifted, result.probs))
    assert before - after >= result.certificate.loss_reduction > 0


def test_saved_rates_are_the_same(tmp_path: Path) -> None:
    rates = estimated(classes=NAMES)
    again = from_json(json.loads(json.dumps(rates.to_json())), tuple(NAMES))
    assert repr(again) == repr(rates)
    np.testing.assert_array_equal(again.bounds(N), rates.bounds(N))
    np.testing.assert_array_equal(copy.deepcopy(rates).estimate(), rates.estimate())
    br.adjust(PROBS, rates, classes=NAMES).save(tmp_path / "shift.json")
    assert repr(br.load(tmp_path / "shift.json").certificate.known) == repr(rates)


def test_classes_are_matched_by_name() -> None:
    rates = estimate_from_labels(FRAME, ROWS, np.array(NAMES)[Y[ROWS]])
    low, high = rates.bounds()
    turned = rates.on(("owl", "dog", "cat"), 3)
    np.testing.assert_array_equal(turned.bounds(), (low[::-1], high[::-1]))
    np.testing.assert_array_equal(turned.estimate(), rates.estimate()[::-1])


def test_all_ways_to_name_the_rows_give_the_same_rates() -> None:
    names = np.array(NAMES)[Y[ROWS]]
    mask = np.isin(np.arange(N), ROWS)
    numbered = FRAME.set_axis(np.arange(N)[::-1] + 1000)
    expected = estimate_from_labels(FRAME, ROWS, names).bounds()
    for probs, labelled, labels in (
        (FRAME, [f"id{i}" for i in ROWS], names),
        (FRAME, FRAME.index[ROWS], names),
        (FRAME, mask, np.array(NAMES)[Y[mask]]),
        (FRAME, pd.Series(mask), np.array(NAMES)[Y[mask]]),
        (numbered, numbered.index[ROWS], names),  # an index has labels,
        (numbered, ROWS, names),  # and an array has row numbers
        (pl.DataFrame(PROBS, schema=NAMES), ROWS.tolist(), names.tolist()),
    ):
        np.testing.assert_array_equal(estimate_from_labels(probs, labelled, labels).bounds(), expected)


def test_a_series_of_probabilities_has_an_index_too() -> None:
    p = pd.Series(PROBS[:, 2], index=FRAME.index, name="owl")
    by_label = estimate_from_labels(p, FRAME.index[ROWS], Y[ROWS] == 2)
    by_number = estimate_from_labels(PROBS[:, 2], ROWS, Y[ROWS] == 2)
    np.testing.assert_array_equal(by_label.bounds(), by_number.bounds())


def test_another_batch_of_the_same_size_is_refused() -> None:
    others = PROBS[:, [1, 2, 0]]
    drawn = br.draw_rows(PROBS, 100, random_state=0)
    rates = br.estimate(PROBS, labelled=drawn, y_labelled=Y[drawn.rows])
    for known in (rates, from_json(json.loads(json.dumps(rates.to_json())), None)):
        with pytest.raises(BadRates, match="these rates were estimated for other predictions"):
            br.adjust(others, known)
    assert br.adjust(others, rates.without_batch()).converged
    other = np.random.default_rng(1).dirichlet(np.ones(3), size=N)
    with pytest.raises(BadOption, match="labelled was drawn from rows with other predictions"):
        br.estimate(other, labelled=drawn, y_labelled=Y[drawn.rows])
    found = br.estimate(other, labelled=drawn.without_batch(), y_labelled=Y[drawn.rows])
    assert found.contains(np.bincount(Y) / N)


def test_columns_in_another_order_are_the_same_batch() -> None:
    drawn = br.draw_rows(FRAME, 100, random_state=0)
    turned = FRAME[NAMES[::-1]]
    rates = br.estimate(turned, labelled=drawn, y_labelled=np.array(NAMES)[Y[drawn.rows]])
    first, second = br.adjust(FRAME, rates), br.adjust(turned, rates)
    np.testing.assert_allclose(first.probs[NAMES], second.probs[NAMES], atol=1e-6)


def test_validation_data_are_read_like_the_batch() -> None:
    p_val, y_val = PROBS[::-1] ** 0.5, Y[::-1]
    p_val /= p_val.sum(axis=1, keepdims=True)
    labels = np.array(NAMES)[Y[ROWS]]
    frame = pd.DataFrame(p_val, columns=NAMES)
    plain = br.estimate(PROBS, labelled=ROWS, y_labelled=Y[ROWS], probs_val=p_val, y_val=y_val).bounds()
    both = {"labelled": ROWS, "y_labelled": Y[ROWS], "y_val": y_val}
    named = {"labelled": ROWS, "y_labelled": labels, "y_val": "y"}
    ways = {
        "logits": br.estimate(np.log(PROBS), probs_val=np.log(p_val), from_logits=True, **both),
        "counts": br.estimate(5 * PROBS, probs_val=5 * p_val, normalize=True, **both),
        "column": br.estimate(FRAME, probs_val=frame.assign(y=np.array(NAMES)[y_val]), **named),
        "pattern": br.estimate(
            FRAME.add_prefix("p_").assign(id=1),
            probs_val=frame.add_prefix("p_").assign(y=np.array(NAMES)[y_val]),
            columns="p_*",
            **named,
        ),
    }
    for way, rates in ways.items():
        np.testing.assert_allclose(rates.bounds(), plain, atol=1e-9, err_msg=way)


def test_each_group_may_have_its_own_labelled_rows() -> None:
    groups, tables = np.repeat(["north", "south"], N // 2), {}
    for name in ("north", "south"):
        inside = groups == name
        drawn = br.draw_rows(PROBS[inside], 80, random_state=0)
        tables[name] = estimate_from_labels(PROBS[inside], drawn, Y[inside][drawn.rows], confidence=0.975)
    result = br.adjust(PROBS, br.Rates.by("region", tables, joint=False), groups=groups)
    assert result.certificate.condition == (
        "with 97.5 % confidence for each group by itself, if the labelled rows of each group of region were drawn at "
        "random from the rows of the group"
    )
    together = br.adjust(PROBS, br.Rates.by("region", tables), groups=groups)
    assert together.certificate.confidence == pytest.approx(0.95)
    assert together.certificate.condition.startswith("with 95 % confidence for all groups together, if the labelled")
    message = r"needed with 98\.75 % here.*again with confidence=0\.9875, or pass joint=False to Rates\.by"
    with pytest.raises(BadRates, match=message):
        br.adjust(PROBS, br.Rates.by("region", tables, confidence=0.975), groups=groups)


def test_drawn_rows_are_random_and_repeatable() -> None:
    drawn = br.draw_rows(PROBS, 50, random_state=3)
    assert len(drawn) == len(np.unique(drawn.rows)) == 50
    np.testing.assert_array_equal(drawn.rows, br.draw_rows(FRAME, 50, random_state=3).rows)
    assert not np.array_equal(drawn.rows, br.draw_rows(PROBS, 50, random_state=4).rows)
    rng, times = np.random.default_rng(0), np.zeros(20)
    for _ in range(1000):
        times[br.draw_rows(PROBS[:20], 5, random_state=rng).rows] += 1
    assert abs(times - 250).max() < 5 * np.sqrt(1000 * 0.25 * 0.75)


def test_drawn_rows_tell_what_size_gives_what_width() -> None:
    drawn = br.draw_rows(PROBS, 120, random_state=0)
    assert list(drawn.widths) == [50, 100, 120, 200]
    assert list(drawn.widths.values()) == sorted(drawn.widths.values(), reverse=True)
    assert repr(drawn).startswith("120 of 400 rows to label, drawn at random\n")
    assert "<th>widest interval</th>" in drawn._repr_html_()
    assert br.draw_rows(PROBS, N, random_state=0).widths[N] == 0


def test_strata_have_proportional_numbers_of_rows_and_are_used_later() -> None:
    frame = FRAME.assign(site=np.where(np.arange(N) < 300, "north", np.where(np.arange(N) < 395, "south", "pole")))
    drawn = br.draw_rows(frame, 80, stratify="site", columns=NAMES, random_state=0)
    sites = frame["site"].iloc[drawn.rows].value_counts()
    assert sites.to_dict() == {"north": 58, "south": 17, "pole": 5}  # all of the smallest stratum
    rates = estimate_from_labels(frame[NAMES], drawn, np.array(NAMES)[Y[drawn.rows]])
    assert rates.contains(dict(zip(NAMES, np.bincount(Y) / N, strict=True)))
    assert "drawn at random within each stratum" in rates.condition()
    assert repr(drawn).startswith("80 of 400 rows to label, drawn at random from each of 3 strata")
    predicted = br.draw_rows(PROBS, 80, stratify="predicted", random_state=0)
    assert np.bincount(PROBS[predicted.rows].argmax(axis=1)).min() >= 8


def test_estimates_from_unequally_sampled_strata_are_weighted() -> None:
    strata = np.repeat([0, 1], [390, 10])
    y = strata  # so the rate is known exactly
    drawn = br.draw_rows(np.full(N, 0.5), 20, stratify=strata, random_state=0)
    assert (strata[drawn.rows] == 1).sum() == 8
    assert estimate_from_labels(np.full(N, 0.5), drawn, y[drawn.rows]).estimate()[1] < 0.1


@pytest.mark.parametrize("dtype", [np.float32, object])
def test_integers_of_other_dtypes_are_labels_and_row_numbers(dtype: Any) -> None:
    expected = estimate_from_labels(PROBS, ROWS, Y[ROWS])
    np.testing.assert_array_equal(estimate_from_labels(PROBS, ROWS, Y[ROWS].astype(dtype)).bounds(), expected.bounds())
    objects = estimate_from_labels(PROBS, ROWS.astype(object), Y[ROWS])
    np.testing.assert_array_equal(objects.bounds(), expected.bounds())
    table = br.compare(PROBS, Y.astype(dtype), [0.3, 0.3, 0.4])
    assert str(table) == str(br.compare(PROBS, Y, [0.3, 0.3, 0.4]))


Call = Callable[[], object]
BAD: list[tuple[Call, type[Exception], str]] = [
    (lambda: estimate_from_labels(PROBS, [], []), BadOption, "labelled is empty; label at least one row"),
    (lambda: estimate_from_labels(PROBS, [1, 2, 1], [0, 0, 0]), BadOption, "labelled contains row 1 2 times"),
    (lambda: estimate_from_labels(PROBS, [1, 400], [0, 0]), BadOption, r"labelled\[1\] is 400, but the rows of "),
    (lambda: estimate_from_labels(PROBS, [-1], [0]), BadOption, "numbered 0 to 399"),
    (lambda: estimate_from_labels(PROBS, [0.5], [0]), BadOption, "must be whole row numbers or booleans, not"),
    (lambda: estimate_from_labels(PROBS, [[1, 2]], [0]), BadOption, "must be a list of row numbers, a mask"),
    (lambda: estimate_from_labels(PROBS, 7, [0]), BadOption, "must be a list of row numbers, a mask"),
    (lambda: estimate_from_labels(PROBS, [True, False], [0]), BadOption, "a mask for 2 rows, but probs_new has 400"),
    (lambda: estimate_from_labels(PROBS, np.zeros(N, bool), []), BadOption, "a mask without a labelled row"),
    (lambda: estimate_from_labels(FRAME, ["id1", "id400"], ["cat", "cat"]), BadOption, "'id400'.* not in the index"),
    (lambda: estimate_from_labels(FRAME.set_axis(["a"] * N), ["a"], ["cat"]), BadOption, "the same label for several"),
    (lambda: estimate_from_labels(PROBS, ROWS, Y), BadLabels, "400 labels, but labelled has 100 rows.* all rows"),
    (lambda: estimate_from_labels(PROBS, ROWS, np.eye(3)[Y[ROWS]]), BadLabels, r"has shape \(100, 3\), but"),
    (lambda: estimate_from_labels(FRAME, [0, 1], ["cat", "cow"]), BadLabels, "y_labelled contains 'cow', which is not"),
    (lambda: estimate_from_labels(PROBS, [0, 1], [0, np.inf]), BadLabels, r"y_labelled\[1\] is inf, but the columns"),
    (lambda: estimate_from_labels(PROBS, [0, 1], [0, 0.5]), BadLabels, "y_labelled contains 0.5, but the columns have"),
    (lambda: estimate_from_labels(PROBS, [0, 1], [0, 3]), BadLabels, "columns are numbered 0 to 2"),
    (lambda: estimate_from_labels(PROBS, [0, 1], [0, np.nan]), BadLabels, r"y_labelled\[1\] is NaN"),
    (lambda: estimate_from_labels(FRAME, [0, 1], ["cat", None]), BadLabels, r"y_labelled\[1\] is None"),
    (lambda: estimate_from_labels(PROBS, np.isin(np.arange(N), ROWS) * 1, Y[ROWS]), BadOption, r"mask\.astype\(bool\)"),
    (lambda: estimated(confidence=95), BadOption, "confidence must be a number between 0 and 1"),
    (lambda: estimated(probs_val=PROBS), BadOption, "validation data needs both probs_val= and y_val="),
    (
        lambda: estimated(probs_val=PROBS, y_val=Y + 1),
        BadLabels,
        r"y_val\[.*\] is .*, but the columns are numbered 0 to 2",
    ),
    (lambda: estimate_from_labels(PROBS + 1, ROWS, Y[ROWS]), BadProbabilities, "do not sum to 1"),
    (lambda: estimate_from_labels("missing.parquet", ROWS, Y[ROWS]), BadProbabilities, "probs_new is in a file"),
    (lambda: estimate_from_labels(PROBS[:50], br.draw_rows(PROBS, 9), [0] * 9), BadOption, "drawn from 400 rows"),
    (lambda: br.draw_rows(PROBS, 401), BadOption, "size is 401, but probs_new has only 400 rows"),
    (lambda: br.draw_rows(PROBS, 0), BadOption, "size must be a whole number above 0, not 0"),
    (lambda: br.draw_rows(PROBS, 10, stratify="site"), BadOption, "must be 'predicted', the name of a column"),
    (lambda: br.draw_rows(PROBS, 10, stratify=[1, 2]), BadOption, r"one value for each of the 400 rows, but has shape"),
    (lambda: br.draw_rows(PROBS, 10, stratify=Y), BadOption, "3 strata of stratify= need at least 24 labels"),
    (lambda: br.draw_rows(PROBS, 5, stratify=[0] * N), BadOption, "1 stratum of stratify= needs at least 8 labels"),
    (lambda: br.draw_rows(PROBS, 10, stratify=[[1], [2, 3]]), BadOption, "stratify must have one value for each row"),
    (lambda: br.draw_rows(PROBS[:1], 2), BadOption, "probs_new has only 1 row$"),
    (lambda: estimate_from_labels(PROBS, [7], [0, 1]), BadLabels, "has 2 labels, but labelled has 1 row;"),
    (lambda: estimate_from_labels(PROBS, [7, 8], [0]), BadLabels, "has 1 label, but labelled has 2 rows;"),
    (lambda: estimate_from_labels(PROBS, [True], [0]), BadOption, "labelled is a mask for 1 row, but"),
    (lambda: br.estimate(PROBS, probs_val=PROBS[:1], y_val=[0, 1]), BadLabels, "but probs_val has 1 row$"),
    (lambda: br.draw_rows(PROBS, 10, random_state="x"), BadOption, "random_state must be a whole number"),
    (lambda: br.adjust(PROBS[:300], estimated()), BadRates, "estimated for a batch of 400 rows, but are used for 300"),
    (lambda: br.adjust(PROBS, estimated(), sample_weight=Y + 1.0), BadRates, r"leave sample_weight= out"),
    (lambda: estimated().bounds(500), BadRates, "estimated for a batch of 400 rows"),
    (
        lambda: br.adjust(PROBS, br.Margins(estimated(), confidence=0.99)),
        BadRates,
        "95 % confidence, but are needed with 99 % here.*; estimate them again with confidence=0.99",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD)
def test_messages_say_what_is_wrong(call: Call, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_files_and_dask_collections_must_be_read_first(tmp_path: Path) -> None:
    array = pytest.importorskip("dask.array")
    with pytest.raises(BadProbabilities, match="read the predictions into an array or a dataframe first"):
        estimate_from_labels(br.Files(tmp_path / "*.parquet"), ROWS, Y[ROWS])
    with pytest.raises(BadProbabilities, match="whose rows are not in memory"):
        br.draw_rows(array.from_array(PROBS, chunks=(100, 3)), 10)


def test_strata_may_be_a_column_whose_name_is_a_number() -> None:
    frame = pd.DataFrame({"p": np.linspace(0.1, 0.9, 300), 3: np.arange(300) % 2})
    drawn = br.draw_rows(frame, 40, stratify=3, columns="p", random_state=0)
    assert (drawn.rows % 2).sum() == 20
    assert "with strata they are a little wider" in str(drawn)


def test_one_row_is_singular() -> None:
    assert "estimated from 1 labelled row of a batch" in str(estimate_from_labels(PROBS, [7], [0]))
    found = br.estimate(PROBS[:1], probs_val=PROBS[2:3], y_val=[0])
    assert "for a batch of 1 row from 1 labelled row:" in str(found)
    assert "a survey of 1 case:" in str(br.Rates.from_counts(1, total=1))
    drawn = br.draw_rows(PROBS, 20, stratify=["x"] * N)
    assert "drawn at random from each of 1 stratum" in str(drawn)


def test_masked_strata_are_refused() -> None:
    masked = np.ma.array(np.arange(300) % 2, mask=np.arange(300) == 5)
    with pytest.raises(br.BaserateError, match="stratify is a masked array"):
        br.draw_rows(np.linspace(0.1, 0.9, 300), 40, stratify=masked)
