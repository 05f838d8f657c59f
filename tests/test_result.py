"""A result: its text, applying it to other rows, saving and loading it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support import ALL_LOSSES, loss_id

import baserate as br
from baserate.losses import Loss
from baserate.result.facts import facts
from baserate.result.rates_note import rates_note

RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.ones(3), size=40)
NAMES = ["ant", "bee", "cat"]


@pytest.fixture
def result() -> br.Adjustment:
    return br.adjust(P, [0.5, 0.3, 0.2], classes=NAMES)


def test_repr_states_the_adjustment_and_the_guarantee(result: br.Adjustment) -> None:
    text = repr(result)
    assert text.startswith("Bounded adjustment for Log(): 40 rows, 3 classes")
    assert f"mean loss falls by at least {result.certificate.loss_reduction:.6g}" in text
    assert "if these rows have the requested class rates" in text
    for name, wanted in zip(NAMES, ["0.5000", "0.3000", "0.2000"], strict=True):
        row = next(line for line in text.splitlines() if line.split()[:1] == [name])
        assert row.split()[2:4] == [wanted, wanted]


def test_repr_of_many_classes_is_short() -> None:
    p = RNG.dirichlet(np.ones(500), size=20)
    text = repr(br.adjust(p, np.full(500, 1 / 500)))
    assert len(text.splitlines()) < 25
    assert "and 488 classes that changed less" in text


def test_repr_of_prior_adjustment_says_that_the_loss_may_rise() -> None:
    text = repr(br.prior_adjust([[0.6, 0.4], [0.6, 0.4]], [0.5, 0.5], [0.1, 0.9]))
    assert text.startswith("Prior probability adjustment: 2 rows, 2 classes")
    worse = br.prior_adjust([[0.9, 0.1], [0.9, 0.1]], [0.99, 0.01], [0.5, 0.5])
    assert worse.certificate.loss_reduction < 0
    assert "mean log loss may rise, by at most" in repr(worse)


VARIATION = "drawn at random vary by about"


def mean_and_rate(n: int, mean: float, rate: float) -> str:
    return repr(br.adjust(np.tile([1 - mean, mean], (n, 1)), [1 - rate, rate]))


@pytest.mark.parametrize(
    ("n", "mean", "rate", "is_shown"),
    [
        (30, 0.5, 0.35, True),
        (30, 0.9, 0.1, True),  # The loss falls anyway, but the guarantee is for exact rates.
        (1000, 0.24, 0.2, True),  # ±0.025 is more than half of the change
        (1000, 0.26, 0.2, False),  # and here less
        (1000, 0.204, 0.2, False),  # a small change
        (100_000, 0.2, 0.2, False),
        (100_000, 0.202, 0.2, False),
        (100_000, 0.4, 0.2, False),
    ],
)
def test_small_batches_are_told_how_much_their_rates_vary(n: int, mean: float, rate: float, is_shown: bool) -> None:
    assert (VARIATION in mean_and_rate(n, mean, rate)) == is_shown


def test_the_variation_of_the_rates_is_that_of_random_samples() -> None:
    text = mean_and_rate(30, 0.5, 0.35)
    shares = np.random.default_rng(0).binomial(30, 0.35, 20_000) / 30
    half_width = 1.96 * shares.std()
    assert f"the rates of 30 rows {VARIATION.removesuffix(' about')} about +-{half_width:.2g} (95 %)" in text
    assert "for rates of a population, pass rates=Rates.of_population(...)" in text


def test_the_variation_of_the_rates_is_not_mentioned_where_it_does_not_apply() -> None:
    for known in (br.Rates.of_population([0.5, 0.3, 0.2]), br.Rates.between(0.1, 0.6), br.Rates.from_counts([5, 3, 2])):
        assert VARIATION not in repr(br.adjust(P, known))
    assert VARIATION not in repr(br.prior_adjust(P, [0.2, 0.3, 0.5], [0.5, 0.3, 0.2]))


def test_loss_of_small_batches_rises_with_rates_of_the_population_unless_they_are_stated_as_such() -> None:
    rng, rates = np.random.default_rng(0), np.array([0.7, 0.3])
    rises = {"exact": 0, "population": 0}
    for _ in range(200):
        y = (rng.random(30) < 0.3).astype(int)
        positive = 1 / (1 + np.exp(1.125 - 1.5 * rng.normal(1.5 * y) - np.log(0.3 / 0.7)))
        probs = np.column_stack([1 - positive, positive])
        for name, known in (("exact", br.Rates.exact(rates)), ("population", br.Rates.of_population(rates))):
            after = br.adjust(probs, known).probs
            change = np.log(probs[np.arange(30), y]).mean() - np.log(after[np.arange(30), y]).mean()
            rises[name] += change > 1e-12
    assert rises["exact"] > 80
    assert rises["population"] <= 10


def test_apply_accepts_one_row_or_many(result: br.Adjustment) -> None:
    many = result.apply(P)
    np.testing.assert_allclose(many, result.probs, atol=1e-15)
    for i in (0, 7):
        one = result.apply(P[i])
        assert one.shape == (3,)
        np.testing.assert_allclose(one, many[i], atol=1e-15)
    np.testing.assert_allclose(result.apply(P[:5].astype(np.float32)), many[:5], atol=1e-6)
    np.testing.assert_allclose(result.apply(np.log(P), from_logits=True), many, atol=1e-12)
    np.testing.assert_allclose(result.apply(7 * P, normalize=True), many, atol=1e-12)


def test_apply_expects_logits_if_the_fit_did() -> None:
    fitted = br.adjust(np.log(P), [0.5, 0.3, 0.2], from_logits=True)
    np.testing.assert_allclose(fitted.apply(np.log(P)), fitted.probs, atol=1e-14)
    np.testing.assert_allclose(fitted.apply(P, from_logits=False), fitted.probs, atol=1e-12)


@pytest.mark.parametrize(("loss", "k"), ALL_LOSSES, ids=loss_id)
def test_loaded_adjustment_equals_the_saved_one(loss: Loss, k: int, tmp_path: Path) -> None:
    p = RNG.dirichlet(np.full(k, 2.0), size=30)
    made = br.adjust(p, RNG.dirichlet(np.full(k, 5.0)), loss=loss, classes=[f"class {j}" for j in range(k)])
    made.save(tmp_path / "shift.json")
    passed = loss if isinstance(loss, br.losses.Separable) else None
    loaded = br.load(tmp_path / "shift.json", loss=passed)
    np.testing.assert_array_equal(loaded.apply(p), made.apply(p))
    assert repr(loaded) == repr(made)
    assert loaded.loss == loss
    np.testing.assert_array_equal(loaded.shift, made.shift)
    np.testing.assert_array_equal(loaded.certificate.sensitivity, made.certificate.sensitivity)


def test_saving_keeps_limits_zero_rates_smoothing_and_unboundedness(tmp_path: Path) -> None:
    path = tmp_path / "shift.json"
    tight = np.array([[1.0, 0, 0], [0.4, 0.6, 0], [0.2, 0.2, 0.6]])
    for p, rates, options in [
        (tight, [1 / 3, 1 / 3, 1 / 3], {}),
        (P, [0.5, 0.5, 0.0], {}),
        (P, [0.5, 0.5, 0.0], {"loss": "ranked"}),
        (tight, [0.2, 0.3, 0.5], {"zeros": 1e-4}),
        (P, [0.98, 0.01, 0.01], {"loss": "brier", "bounded": False}),
    ]:
        made = br.adjust(p, rates, **options)
        made.save(path)
        np.testing.assert_array_equal(br.load(path).apply(p), made.apply(p))


def test_class_names_with_half_a_surrogate_pair_are_saved(tmp_path: Path) -> None:
    names = ["\ud800", "caf\u00e9 \U0001f600", "\udfff tail"]
    br.adjust(P, [0.5, 0.3, 0.2], classes=names).save(tmp_path / "shift.json")
    assert br.load(tmp_path / "shift.json").classes == tuple(names)
    assert "caf\u00e9 \U0001f600" in (tmp_path / "shift.json").read_text(encoding="utf-8"), "other names stay readable"


def test_a_class_name_that_json_would_change_is_refused(tmp_path: Path) -> None:
    halves = "\ud83d" + "\ude00"  # two code points, which JSON would join to one
    result = br.adjust(P, [0.5, 0.3, 0.2], classes=["a", "b", halves])
    with pytest.raises(br.BaserateError, match=r"class name '.ud83d.ude00', so it cannot be saved; rename the class"):
        result.save(tmp_path / "shift.json")


def test_rows_of_a_loaded_adjustment_are_an_error(result: br.Adjustment, tmp_path: Path) -> None:
    result.save(tmp_path / "shift.json")
    with pytest.raises(br.BaserateError, match=r"has a shift but no rows: .*; use apply\(probs\)"):
        _ = br.load(tmp_path / "shift.json").probs


def test_saving_writes_json_and_no_other_file(result: br.Adjustment, tmp_path: Path) -> None:
    path = tmp_path / "shift.json"
    result.save(path)
    document = json.loads(path.read_text())
    assert document["version"] == 2
    assert document["classes"] == NAMES
    assert [file.name for file in tmp_path.iterdir()] == ["shift.json"]
    result.save(str(path))
    assert [file.name for file in tmp_path.iterdir()] == ["shift.json"]


def test_failed_save_keeps_the_old_file(result: br.Adjustment, tmp_path: Path) -> None:
    path = tmp_path / "shift.json"
    result.save(path)
    before = path.read_text()
    tuples = br.adjust(P, [0.5, 0.3, 0.2], classes=[("a", 1), ("b", 2), ("c", 3)])
    with pytest.raises(br.BaserateError, match="class names must be strings, finite numbers or booleans to be saved"):
        tuples.save(path)
    assert path.read_text() == before
    with pytest.raises(FileNotFoundError, match=r"shift\.json cannot be written: there is no folder .*no such folder$"):
        result.save(tmp_path / "no such folder" / "shift.json")
    for folder in (".", tmp_path):
        with pytest.raises(br.errors.BadFile, match="cannot be written: it is a folder"):
            result.save(folder)
        with pytest.raises(br.errors.BadFile, match="cannot be written: it is a folder"):
            br.Rates.between(0.1, 0.3).save(folder)
    assert [file.name for file in tmp_path.iterdir()] == ["shift.json"]


def test_paths_that_the_system_cannot_use_are_refused(result: br.Adjustment, tmp_path: Path) -> None:
    (tmp_path / "loop.json").symlink_to("loop.json")
    for use in (result.save, br.load):
        with pytest.raises(br.BaserateError, match=r"loop\.json cannot be used: its symbolic links lead in a circle"):
            use(tmp_path / "loop.json")
        with pytest.raises(br.BaserateError, match=r"^x+\.\.\.x+ cannot be used: the path, or a name in it, is longer"):
            use("x" * 5000)


def test_shift_has_mean_zero_and_is_the_change_of_the_gradient(result: br.Adjustment) -> None:
    assert result.shift.sum() == pytest.approx(0, abs=1e-12)
    change = result.loss.gradient(result.probs) - result.loss.gradient(P)
    np.testing.assert_allclose(change - change.mean(axis=1, keepdims=True), np.tile(result.shift, (40, 1)), atol=1e-10)


def test_the_note_on_rates_appears_only_where_chance_does_not_explain_them() -> None:
    p = np.repeat([[0.9, 0.1], [0.5, 0.5]], 500, axis=0)  # the labels of these rows vary by 0.013
    result = br.adjust(p, [0.7, 0.3], classes=["no", "yes"])
    assert rates_note(facts(result)) is None
    assert rates_note(facts(result.what_if([0.67, 0.33]))) is None
    note = rates_note(facts(result.what_if([0.6, 0.4])))
    assert note is not None
    assert "the mean prediction for yes is 0.3, not 0.4" in note
    assert note in str(result.what_if([0.6, 0.4]))
    assert rates_note(facts(result.what_if(br.Rates.between([0.6, 0.3], [0.7, 0.4])))) is None
    assert rates_note(facts(br.prior_adjust(p, [0.5, 0.5], [0.6, 0.4]))) is None
    few = br.adjust(p[::100], [0.6, 0.4])
    assert rates_note(facts(few)) is None


def test_predictions_that_were_only_rounded_to_float32_are_not_said_to_become_worse(tmp_path: Path) -> None:
    p = np.random.default_rng(0).dirichlet(np.ones(4), 1000).astype(np.float32)
    result = br.adjust(p, br.Rates.between(0.1, 0.5), normalize=True)
    assert -1e-6 < result.certificate.loss_reduction < 0
    assert "the predictions did not have to change; their rounding raises the mean loss by at most" in repr(result)
    assert "may rise" not in repr(result)
    result.report(tmp_path / "report.md")
    report = (tmp_path / "report.md").read_text()
    assert "Rounding them raises the loss by at most" in report
    assert "may rise" not in report
