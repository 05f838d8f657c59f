"""Displays draw the numbers that they hold, and are readable with few and many classes, long names and many rows."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.figure import Figure
from matplotlib.text import Text
from scipy.stats import binomtest

import baserate as br
from baserate.displays.movement import Panels, Triangle
from baserate.displays.style import short_class_name, text_width
from baserate.errors import BadLabels, BadOption, BadProbabilities

mpl.use("agg")

P3 = [[0.7, 0.25, 0.05], [0.2, 0.5, 0.3], [0.1, 0.3, 0.6], [0.5, 0.2, 0.3], [0.3, 0.6, 0.1]]


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    yield
    plt.close("all")


def predictions(k: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Predictions, their adjustment to other rates by Bayes' rule, labels drawn from it, and its class rates."""
    rng = np.random.default_rng(seed)
    distinct = min(n, 100_000)
    p = np.exp(rng.normal(scale=2.0, size=(distinct, k)))
    p /= p.sum(axis=1, keepdims=True)
    a = p * np.linspace(1.0, 0.1, k)
    a /= a.sum(axis=1, keepdims=True)
    y = np.minimum((a.cumsum(axis=1) < rng.random((distinct, 1))).sum(axis=1), k - 1)
    copies = n // distinct
    p, a, y = (np.tile(rows, (copies, 1)) if rows.ndim == 2 else np.tile(rows, copies) for rows in (p, a, y))
    return p, a, y, a.mean(axis=0)


def long_names(k: int) -> list[str]:
    """Names of 300 wide characters, with dollar signs as in a formula."""
    return [f"$W_{j}" + "MW$" * 98 + f"_{j:03d}" for j in range(k)]


def assert_readable(figure: Figure) -> None:
    """No text leaves the figure, and no two texts overlap."""
    figure.canvas.draw()
    hidden = {text for ax in figure.axes for text in _hidden_texts(ax)}
    texts = [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip() and t not in hidden]
    contents = [text.get_text() for text in texts]
    x0, y0, x1, y1 = np.array([text.get_window_extent().extents for text in texts]).T
    inside = (x0 >= -1) & (y0 >= -1) & (x1 <= figure.bbox.width + 1) & (y1 <= figure.bbox.height + 1)
    assert inside.all(), [contents[i] for i in np.flatnonzero(~inside)]
    overlap_x = np.minimum(x1[:, None], x1) - np.maximum(x0[:, None], x0)
    overlap_y = np.minimum(y1[:, None], y1) - np.maximum(y0[:, None], y0)
    pairs = np.argwhere(np.triu((overlap_x > 1) & (overlap_y > 1), 1))
    assert not len(pairs), [(contents[i], contents[j]) for i, j in pairs]


def _hidden_texts(ax: Axes) -> Iterator[Any]:
    """Text objects that matplotlib does not draw: those of axes that are off, and of ticks outside the limits."""
    for axis in (ax.xaxis, ax.yaxis):
        low, high = sorted(axis.get_view_interval())
        slack = 1e-9 * (high - low)
        for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
            if not ax.axison or not low - slack <= tick.get_loc() <= high + slack:
                yield from (tick.label1, tick.label2)
        if not ax.axison:
            yield from (axis.label, axis.offsetText)


DRAW: dict[str, Callable[..., Any]] = {
    "rates": lambda p, a, y, r, c: br.RatesDisplay.from_predictions(p, r, classes=c),
    "set of rates": lambda p, a, y, r, c: br.RatesDisplay.from_predictions(p, br.Rates.of_population(r), classes=c),
    "movement": lambda p, a, y, r, c: br.MovementDisplay.from_predictions(p, a, classes=c),
    "reliability": lambda p, a, y, r, c: br.ReliabilityDisplay.from_predictions(
        p, a, y if c is None else np.array(c)[y], classes=c
    ),
    "rate sensitivity": lambda p, a, y, r, c: br.RateSensitivityDisplay.from_predictions(p, r, classes=c),
    "bound sensitivity": lambda p, a, y, r, c: br.RateSensitivityDisplay.from_predictions(
        p, br.Rates.of_population(r), classes=c
    ),
}


@pytest.mark.parametrize("kind", DRAW)
@pytest.mark.parametrize(
    ("k", "n", "named"),
    [
        (2, 10, True),
        pytest.param(3, 10, False, marks=pytest.mark.stress),
        (100, 10, True),
        (3, 2000, True),
        pytest.param(10, 2000, True, marks=pytest.mark.stress),
        (100, 2000, False),
    ],
)
def test_all_texts_are_readable(kind: str, k: int, n: int, named: bool) -> None:
    assert_readable(DRAW[kind](*predictions(k, n), long_names(k) if named else None).figure_)


@pytest.mark.parametrize("kind", ["movement", "reliability"])
@pytest.mark.parametrize("k", [2, 3, 10])
def test_displays_of_a_million_rows_are_readable(kind: str, k: int) -> None:
    assert_readable(DRAW[kind](*predictions(k, 1_000_000), None).figure_)


@pytest.mark.stress
@pytest.mark.parametrize("k", [2, 3, 5])
def test_displays_of_ten_million_rows_count_every_row(k: int) -> None:
    p, a, y, _ = predictions(k, 10_000_000)
    display = br.MovementDisplay.from_predictions(p, a)
    assert_readable(display.figure_)
    assert np.sum(display.movement.counts) == 10_000_000 * (1 if k < 4 else k)
    assert_readable(br.ReliabilityDisplay.from_predictions(p, a, y).figure_)


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize(
    "case",
    [
        (P3, [0.5, 0.4, 0.1], "brier"),
        (P3, [0.2, 0.4, 0.4], "log"),
        ([[0.9, 0.1], [0.3, 0.7]], [0.75, 0.25], "brier"),
        ([[0.9, 0.1], [0.3, 0.7]], [0.75, 0.25], "log"),
        ([[0.9, 0.1], [0.3, 0.7], [0.5, 0.5]], [0.75, 0.25], "brier"),
    ],
)
def test_texts_of_geometry_display_are_readable(case: Any, named: bool) -> None:
    p, rates, loss = case
    names = long_names(len(rates)) if named else None
    assert_readable(br.GeometryDisplay.from_predictions(p, rates, loss=loss, classes=names).figure_)


def test_texts_of_sensitivity_and_comparison_display_are_readable() -> None:
    p, _, y, rates = predictions(3, 200)
    assert_readable(br.SensitivityDisplay.from_predictions(p, rates).figure_)
    assert_readable(br.ComparisonDisplay.from_predictions(p, y, rates, n_bootstrap=20).figure_)


class TestNotebook:
    def test_every_display_is_shown_as_a_picture(self) -> None:
        p, a, y, rates = predictions(3, 60)
        displays = [draw(p, a, y, rates, None) for draw in DRAW.values()]
        displays.append(br.GeometryDisplay.from_predictions(p, rates))
        displays.append(br.SensitivityDisplay.from_predictions(p, rates))
        displays.append(br.ComparisonDisplay.from_predictions(p, y, rates, n_bootstrap=20))
        for display in displays:
            for _ in range(2):  # also in a later cell
                assert display._repr_png_().startswith(b"\x89PNG")
            assert len(repr(display)) < 120
        assert plt.get_fignums() == [], "an open figure would be shown a second time"

    def test_a_display_that_was_not_drawn_is_drawn(self) -> None:
        display = br.SensitivityDisplay(br.sensitivity(P3, [0.5, 0.4, 0.1]))
        assert repr(display) == "<SensitivityDisplay of sensitivity>"
        assert display._repr_png_() is not None
        assert display.figure_ is not None

    def test_a_figure_with_a_window_is_not_shown_a_second_time(self) -> None:
        display = br.RatesDisplay.from_predictions(P3, [0.5, 0.4, 0.1])

        class Window(FigureManagerBase):
            pass

        display.figure_.canvas.manager.__class__ = Window
        assert display._repr_png_() is None
        assert plt.get_fignums() == [display.figure_.number]


def test_several_displays_can_share_a_figure() -> None:
    p, a, y, rates = predictions(3, 60)
    figure, axes = plt.subplots(2, 3, figsize=(18, 11), layout="constrained")
    for ax, display in zip(
        axes.flat,
        [
            br.RatesDisplay.from_predictions(p, rates, ax=axes[0, 0]),
            br.RateSensitivityDisplay.from_predictions(p, rates, ax=axes[0, 1]),
            br.ReliabilityDisplay.from_predictions(p, a, y, ax=axes[0, 2]),
            br.GeometryDisplay.from_predictions(p, rates, ax=axes[1, 0]),
            br.SensitivityDisplay.from_predictions(p, rates, ax=axes[1, 1]),
        ],
        strict=False,
    ):
        assert display.ax_ is ax
        assert display.figure_ is figure
    br.ComparisonDisplay(br.compare(p, y, rates, losses=["log"], n_bootstrap=5)).plot(axes[1, 2])
    assert_readable(figure)


class TestNames:
    def test_names_are_not_parsed_as_formulas(self) -> None:
        _, ax = plt.subplots()
        drawn = ax.set_title(short_class_name(r"$\frac{1}$ a_b"))
        ax.figure.canvas.draw()  # raises if the name is parsed as a formula
        assert drawn._preprocess_math(drawn.get_text()) == (r"$\frac{1}$ a_b", False)

    def test_long_names_keep_both_ends(self) -> None:
        name = short_class_name("begin" + "x" * 300 + "end", 1.5)
        assert name.startswith("begin")
        assert name.endswith("xend")
        assert "…" in name
        assert 1.3 < text_width(name) <= 1.5
        assert short_class_name("two\nlines\tand \x00") == "two lines and ?"


class TestRates:
    def test_markers_are_drawn_at_the_rates(self) -> None:
        p, _, _, rates = predictions(4, 50)
        result = br.adjust(p, rates, classes=list("abcd"))
        display = br.RatesDisplay.from_adjustment(result)
        marks = {line.get_label(): line for line in display.ax_.get_lines()}
        for label, values in (("as predicted", result.before), ("adjusted", result.rates), ("requested", rates)):
            np.testing.assert_allclose(marks[label].get_xdata(), 100 * values, atol=1e-7)
            np.testing.assert_array_equal(marks[label].get_ydata(), range(4))
        assert len({line.get_marker() for line in marks.values()}) == 3, (
            "markers differ, so that the figure can be read in grey"
        )
        assert [t.get_text() for t in display.ax_.get_yticklabels()] == list("abcd")

    def test_a_rate_set_is_drawn_as_intervals(self) -> None:
        p = predictions(3, 50)[0]
        display = br.RatesDisplay.from_predictions(p, br.Rates.between([0.4, 0.1, None], [0.5, 0.3, None]))
        bars = display.ax_.containers[0]
        low, high = br.Rates.between([0.4, 0.1, None], [0.5, 0.3, None]).bounds()
        np.testing.assert_allclose([bar.get_x() for bar in bars], 100 * low)
        np.testing.assert_allclose([bar.get_x() + bar.get_width() for bar in bars], 100 * high)
        assert "requested: any rate in the interval" in display.ax_.get_legend_handles_labels()[1]

    def test_the_classes_that_changed_most_are_shown(self) -> None:
        p, _, _, rates = predictions(50, 200)
        display = br.RatesDisplay.from_predictions(p, rates)
        change = np.abs(display.rates - display.before)
        assert len(display.shown_) == 30
        assert change[display.shown_].min() >= np.delete(change, display.shown_).max()
        assert "not shown: 20 classes with smaller changes" in display.ax_.get_xlabel()

    def test_small_axes_show_fewer_classes(self) -> None:
        figure, ax = plt.subplots(figsize=(5, 2.5), layout="constrained")
        p, _, _, rates = predictions(50, 200)
        display = br.RatesDisplay.from_predictions(p, rates, ax=ax)
        assert display.ax_ is ax
        assert display.figure_ is figure
        assert 2 < len(display.shown_) < 12

    def test_a_loaded_adjustment_can_be_drawn(self, tmp_path: Any) -> None:
        br.adjust(P3, [0.5, 0.4, 0.1]).save(tmp_path / "shift.json")
        display = br.RatesDisplay.from_adjustment(br.load(tmp_path / "shift.json"))
        np.testing.assert_allclose(display.rates, [0.5, 0.4, 0.1], atol=1e-9)


class TestMovement:
    def test_few_rows_are_drawn_as_points(self) -> None:
        p, a, *_ = predictions(4, 20)
        display = br.MovementDisplay.from_predictions(p, a)
        assert len(display.axes_) == 4
        for j, ax in enumerate(display.axes_):
            (points,) = [line for line in ax.get_lines() if line.get_marker() == "o"]
            np.testing.assert_array_equal(points.get_xdata(), p[:, j])
            np.testing.assert_array_equal(points.get_ydata(), a[:, j])
            assert ax.get_title() == f"class {j}"

    def test_many_rows_are_counted_in_cells(self) -> None:
        p, a, *_ = predictions(4, 300_000)
        movement = br.MovementDisplay.from_predictions(p, a).movement
        assert isinstance(movement, Panels)
        for j in range(4):
            expected = np.histogram2d(p[:, j], a[:, j], bins=50, range=[[0, 1], [0, 1]])[0]
            np.testing.assert_array_equal(movement.counts[j], expected)

    def test_many_classes_have_twelve_panels(self) -> None:
        p, a, *_ = predictions(40, 50)
        display = br.MovementDisplay.from_predictions(p, a, classes=[f"c{j}" for j in range(40)])
        change = np.abs(a.mean(axis=0) - p.mean(axis=0))
        assert sorted(display.movement.shown) == sorted(np.argsort(-change)[:12])
        assert len(display.figure_.axes) == 12
        assert display.figure_.get_supxlabel() == "not shown: 28 classes with smaller changes"

    def test_three_classes_are_drawn_in_a_triangle(self) -> None:
        p, a, *_ = predictions(3, 20)
        display = br.MovementDisplay.from_predictions(p, a)
        corners = np.array([[0, 0], [1, 0], [0.5, np.sqrt(3) / 2]])
        lines = {line.get_label(): line for line in display.axes_[0].get_lines()}
        np.testing.assert_allclose(lines["as predicted"].get_xydata(), p @ corners)
        np.testing.assert_allclose(lines["adjusted"].get_xydata(), a @ corners)

    def test_cells_of_the_triangle_count_every_row_once(self) -> None:
        p, a, *_ = predictions(3, 400_000)
        movement = br.MovementDisplay.from_predictions(p, a).movement
        assert isinstance(movement, Triangle)
        share = movement.counts / movement.counts.sum()
        assert movement.counts.sum() == len(p)
        np.testing.assert_allclose(share @ movement.before, p.mean(axis=0))
        np.testing.assert_allclose(share @ movement.after, a.mean(axis=0))
        nearest = ((p[:500, None] - movement.cells) ** 2).sum(axis=2).argmin(axis=1)
        few = br.MovementDisplay.from_predictions(p[:500], a[:500]).movement
        counted = np.bincount(nearest, minlength=len(movement.cells))
        np.testing.assert_array_equal(few.cells, movement.cells[counted > 0])
        np.testing.assert_array_equal(few.counts, counted[counted > 0])

    @pytest.mark.parametrize("k", [2, 3, 5])
    @pytest.mark.parametrize("n", [50, 3000])
    def test_entries_outside_0_and_1_are_visible(self, k: int, n: int) -> None:
        p, _, _, rates = predictions(k, n)
        a = br.additive(p, rates).probs
        assert a.min() < 0
        display = br.MovementDisplay.from_predictions(p, a)
        assert_readable(display.figure_)
        if k != 3:
            low, high = display.movement.view
            assert low == min(0.0, a[:, display.movement.shown].min())
            assert high == max(1.0, a[:, display.movement.shown].max())

    def test_column_names_of_dataframes_are_shown(self) -> None:
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame(P3, columns=["a", "b", "c"])
        display = br.MovementDisplay.from_predictions(frame, br.adjust(frame, [0.5, 0.4, 0.1]).probs)
        assert {"a", "b", "c"} <= {text.get_text() for text in display.axes_[0].texts}

    @pytest.mark.parametrize(
        ("before", "after", "message"),
        [
            ([[0.5, 0.5]], [[0.5, 0.5], [0.1, 0.9]], r"probs has shape \(1, 2\), but adjusted has shape \(2, 2\)"),
            ([[-3.0, 3.0]], [[0.5, 0.5]], "probs must be between 0 and 1, but has values from -3 to 3"),
            ([[np.nan, 0.5]], [[0.5, 0.5]], "probs must be between 0 and 1"),
            ([[0.5, 0.5]], [[0.5, np.inf]], "adjusted contains values that are not finite"),
        ],
    )
    def test_invalid_predictions_are_refused(self, before: Any, after: Any, message: str) -> None:
        with pytest.raises(BadProbabilities, match=message):
            br.MovementDisplay.from_predictions(before, after)

    def test_the_number_of_axes_must_be_the_number_of_panels(self) -> None:
        _, axes = plt.subplots(1, 2)
        with pytest.raises(BadOption, match="axes must have one entry for three classes, but has 2"):
            br.MovementDisplay.from_predictions(P3, P3, axes=axes)
        with pytest.raises(BadOption, match="axes must have one entry per panel, 1 in total, but has 2"):
            br.MovementDisplay.from_predictions([[0.5, 0.5]], [[0.5, 0.5]], axes=axes)
        assert br.MovementDisplay.from_predictions(P3, P3, axes=axes[0]).axes_[0] is axes[0]


class TestReliability:
    def test_curves_agree_with_a_direct_computation(self) -> None:
        p, a, y, _ = predictions(4, 1000)
        display = br.ReliabilityDisplay.from_predictions(p, a, y, n_bins=5, confidence=0.9)
        assert display.what == "the most probable class"
        for curve, rows in ((display.before, p), (display.after, a)):
            order = np.argsort(rows.max(axis=1))
            np.testing.assert_array_equal(curve.counts, [200] * 5)
            for i, part in enumerate(np.split(order, 5)):
                hits = int((rows[part].argmax(axis=1) == y[part]).sum())
                interval = binomtest(hits, 200).proportion_ci(0.9)
                assert curve.predicted[i] == pytest.approx(rows[part].max(axis=1).mean())
                assert curve.observed[i] == hits / 200
                assert (curve.low[i], curve.high[i]) == pytest.approx((interval.low, interval.high))
            assert curve.histogram.sum() == 1000
        drawn = {c.get_label(): c.lines[0] for c in display.ax_.containers}
        np.testing.assert_array_equal(drawn["adjusted"].get_ydata(), display.after.observed)
        np.testing.assert_array_equal(drawn["as predicted"].get_xdata(), display.before.predicted)

    def test_one_class_can_be_selected_by_name(self) -> None:
        p, a, y, _ = predictions(3, 100)
        names = ["x", "y", "z"]
        display = br.ReliabilityDisplay.from_predictions(p, a, np.array(names)[y], of="z", n_bins=1, classes=names)
        assert display.what == "z"
        assert display.after.predicted == pytest.approx(a[:, 2].mean())
        assert display.after.observed == pytest.approx((y == 2).mean())

    def test_equal_probabilities_share_a_bin(self) -> None:
        p = np.array([[1.0, 0.0]] * 90 + [[0.2, 0.8]] * 10)
        display = br.ReliabilityDisplay.from_predictions(p, p, [0] * 90 + [1] * 10)
        np.testing.assert_array_equal(display.before.counts, [90, 10])
        np.testing.assert_allclose(display.before.predicted, [0.0, 0.8])

    def test_few_rows_have_few_bins(self) -> None:
        p, a, y, _ = predictions(2, 30)
        assert len(br.ReliabilityDisplay.from_predictions(p, a, y).before.counts) == 3

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"kind": "bottom"}, "kind must be 'class', or 'top' if of is None, but kind is"),
            ({"kind": "top", "of": 1}, "kind must be 'class', or 'top' if of is None, but kind is"),
            ({"kind": "class"}, "of must be one of the classes 0, 1, 2, not None"),
            ({"of": 7}, "of must be one of the classes 0, 1, 2, not 7"),
            ({"n_bins": 0}, "n_bins must be a whole number above 0"),
            ({"confidence": 95}, "confidence must be a number between 0 and 1"),
        ],
    )
    def test_bad_options_are_refused(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(BadOption, match=message):
            br.ReliabilityDisplay.from_predictions(P3, P3, [0, 1, 2, 0, 1], **options)

    def test_the_number_of_labels_must_match(self) -> None:
        with pytest.raises(BadLabels, match=r"y has shape \(2,\), but there are 5 predictions of 3 classes"):
            br.ReliabilityDisplay.from_predictions(P3, P3, [0, 1])


class TestRateSensitivity:
    def test_bars_show_the_sensitivity_of_the_certificate(self) -> None:
        p, _, _, rates = predictions(6, 100)
        result = br.adjust(p, rates)
        display = br.RateSensitivityDisplay.from_adjustment(result)
        bars = {round(b.get_y() + b.get_height() / 2): b.get_width() for c in display.ax_.containers for b in c}
        expected = np.sort(result.certificate.sensitivity)[::-1] / 100
        np.testing.assert_allclose([bars[i] for i in range(6)], expected)
        assert [t.get_text() for t in display.ax_.get_yticklabels()] == [str(j) for j in display.shown_]

    def test_the_rule_in_the_title_predicts_the_guarantee(self) -> None:
        p, _, _, rates = predictions(3, 100)
        result, step = br.adjust(p, rates), np.array([-0.01, 0.0, 0.01]) / 100
        fall = result.what_if(rates + step).certificate.loss_reduction - result.certificate.loss_reduction
        bars = br.RateSensitivityDisplay.from_adjustment(result).sensitivity / 100
        assert fall == pytest.approx(0.01 * (bars[2] - bars[0]), rel=1e-2)

    def test_the_longest_of_a_thousand_bars_are_shown(self) -> None:
        rng = np.random.default_rng(0)
        known = rng.normal(size=1000)
        known[:3] = np.nan
        display = br.RateSensitivityDisplay(known, True, br.losses.Log()).plot()
        assert_readable(display.figure_)
        assert np.abs(known[display.shown_]).min() >= np.nanmax(np.abs(np.delete(known, display.shown_)))
        assert (np.diff(known[display.shown_]) <= 0).all()
        assert "not shown: 967 classes with shorter bars" in display.ax_.get_xlabel()
        assert "not shown: 3 classes with rate 0" in display.ax_.get_xlabel()

    def test_the_title_explains_active_bounds(self) -> None:
        p = predictions(3, 50)[0]
        display = br.RateSensitivityDisplay.from_predictions(p, br.Rates.between([0.5, None, None], None))
        assert display.ax_.get_title(loc="left").startswith("Raising the active bound of a class")


class TestGeometry:
    @pytest.mark.parametrize("loss", ["brier", "log", "spherical"])
    @pytest.mark.parametrize("row", [0, 3, -1])
    def test_paths_lead_from_the_prediction_to_its_adjustment(self, loss: str, row: int) -> None:
        example = br.GeometryDisplay.from_predictions(P3, [0.5, 0.4, 0.1], loss=loss, row=row).example
        for path, bounded in ((example.bounded_path, True), (example.unbounded_path, False)):
            answer = br.adjust(P3, [0.5, 0.4, 0.1], loss=loss, bounded=bounded).probs
            np.testing.assert_allclose(path[0], P3[row], atol=1e-12)
            np.testing.assert_allclose(path[-2:], [answer[row]] * 2, atol=1e-9)
            assert np.abs(np.diff(path, axis=0)).max() < 0.05, "the path has no jumps"

    def test_unbounded_brier_leaves_the_triangle_in_a_straight_line(self) -> None:
        example = br.GeometryDisplay.from_predictions(P3, [0.5, 0.4, 0.1]).example
        assert example.unbounded[0].min() < 0
        assert example.bounded_path.min() >= 0
        t = np.linspace(0, 1, 101)[:, None]
        straight = (1 - t) * example.before[0] + t * example.unbounded[0]
        np.testing.assert_allclose(example.unbounded_path[1:-1], straight, atol=1e-12)

    def test_two_rows_of_two_classes_give_figure_1_of_the_paper(self) -> None:
        display = br.GeometryDisplay.from_predictions([[0.9, 0.1], [0.3, 0.7]], [0.75, 0.25])
        lines = {line.get_label(): line.get_xydata() for line in display.ax_.get_lines()}
        np.testing.assert_allclose(lines["p: row 0"], [[0.1, 0.7]])
        np.testing.assert_allclose(lines["unbounded adjustment"], [[-0.05, 0.55]])  # p minus 0.15
        np.testing.assert_allclose(lines["bounded adjustment"], [[0.0, 0.5]], atol=1e-9)
        np.testing.assert_allclose(lines["mean = requested rates"].mean(axis=1) - 0.25, 0.0, atol=1e-12)
        np.testing.assert_allclose(lines["and entries within [0, 1]"], [[0.0, 0.5], [0.5, 0.0]])

    @pytest.mark.parametrize("rates", [[1.0, 0.0, 0.0], [0.6, 0.4, 0.0]])
    @pytest.mark.parametrize("loss", ["brier", "log"])
    def test_paths_end_at_the_adjustment_if_rates_are_0(self, rates: list[float], loss: str) -> None:
        example = br.GeometryDisplay.from_predictions(P3, rates, loss=loss).example
        np.testing.assert_allclose(example.bounded_path[-1], example.bounded[0])

    def test_a_single_row_and_a_rate_set_can_be_drawn(self) -> None:
        assert_readable(br.GeometryDisplay.from_predictions([[0.4, 0.6]], [0.3, 0.7]).figure_)
        near = br.Rates.between([0.5, None, None], [0.6, None, None])
        example = br.GeometryDisplay.from_predictions(P3, near).example
        assert example.wanted[0] == pytest.approx(0.5)

    def test_more_than_three_classes_are_refused(self) -> None:
        with pytest.raises(BadOption, match="GeometryDisplay supports only 2 or 3 classes, but probs has 4"):
            br.GeometryDisplay.from_predictions(np.full((2, 4), 0.25), [0.25] * 4)

    @pytest.mark.parametrize("row", [5, -6, 1.0, True])
    def test_bad_row_numbers_are_refused(self, row: Any) -> None:
        with pytest.raises(BadOption, match="row must be a row number from 0 to 4"):
            br.GeometryDisplay.from_predictions(P3, [0.5, 0.4, 0.1], row=row)


def test_error_without_matplotlib_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **options: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    p, a, y, rates = predictions(3, 10)
    for draw in (*DRAW.values(), lambda p, a, y, r, c: br.GeometryDisplay.from_predictions(p, r)):
        with pytest.raises(ImportError, match=r"baserate\[plot\]"):
            draw(p, a, y, rates, list("abc"[: len(rates)]) if draw is DRAW["movement"] else None)
