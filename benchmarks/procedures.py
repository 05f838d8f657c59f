"""Compare the procedures on simulated target populations; `make procedures` runs this.

The training population has three classes with rates 0.6, 0.3 and 0.1 and normally distributed features. The model is
Bayes' rule or an over-confident version of it. Each target population differs from the training population in one way.
Prints the mean change of a loss over many batches.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from pages import fill

import baserate as br

PAGE = "docs/which-procedure.md"
OLD = np.array([0.6, 0.3, 0.1])
CENTRES = np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 2.0]])
ROWS = 4000  # per batch, before the shift removes some
BATCHES = 100
ADVISED = 25  # batches for which advice is asked, which takes longer than everything else
ERRORS = (0.0, 0.02, 0.05, 0.1)
HARM = 1e-9  # a smaller increase of the loss is rounding error


class Batch(NamedTuple):
    x: np.ndarray
    y: np.ndarray


def drawn(rng: np.random.Generator) -> Batch:
    """A batch from the training population."""
    y = rng.choice(3, size=ROWS, p=OLD)
    return Batch(CENTRES[y] + rng.normal(size=(ROWS, 2)), y)


def logits(x: np.ndarray) -> np.ndarray:
    """Bayes' rule for the training population, up to a constant in each row."""
    return np.log(OLD) - 0.5 * np.square(x[:, None, :] - CENTRES).sum(axis=2)


def predicted(x: np.ndarray, times: float = 1.0) -> np.ndarray:
    """Predictions of the model, whose logits are multiplied by ``times``."""
    p = np.exp(times * (logits(x) - logits(x).max(axis=1, keepdims=True)))
    return p / p.sum(axis=1, keepdims=True)


def kept(batch: Batch, shifted: br.shifts.Shifted) -> Batch:
    return Batch(batch.x[shifted.rows], shifted.y)


def prior(batch: Batch, rng: np.random.Generator) -> Batch:
    return kept(batch, br.shifts.prior(batch.y, 0.4, seed=rng))


def concept(batch: Batch, rng: np.random.Generator) -> Batch:
    return kept(batch, br.shifts.concept(batch.y, 0.3, seed=rng))


def cut_class(batch: Batch, rng: np.random.Generator) -> Batch:
    return kept(batch, br.shifts.covariate(batch.y, batch.x, 0.5))


def combined(batch: Batch, rng: np.random.Generator) -> Batch:
    return kept(batch, br.shifts.combined(batch.y, batch.x, 0.3, seed=rng))


def covariate(batch: Batch, rng: np.random.Generator) -> Batch:
    """Remove rows with a low first feature, independently of their class, so that the model stays correct."""
    keep = rng.random(len(batch.y)) < 1 / (1 + np.exp(1 - 2 * batch.x[:, 0]))
    return Batch(batch.x[keep], batch.y[keep])


def noise(batch: Batch, rng: np.random.Generator) -> Batch:
    fewer = prior(batch, rng)
    return Batch(fewer.x + rng.normal(size=fewer.x.shape), fewer.y)


class Population(NamedTuple):
    name: str
    change: Callable[[Batch, np.random.Generator], Batch]
    times: float = 1.0  # factor of the model's logits; 1 is calibrated


POPULATIONS = (
    Population("only the rates", prior),
    Population("only the rates; the model is over-confident", prior, 2.0),
    Population("the rates, and noise in the features", noise),
    Population("labels: 30 % of the largest class get others (concept shift)", concept),
    Population("features of the largest class: half of it is deleted where one is low", cut_class),
    Population("prior, concept and covariate shift in a row", combined),
    Population("features only: the model stays right", covariate),
)
PRIOR, FOR_LOG, FOR_BRIER = "prior adjustment", "adjusted for log loss", "adjusted for brier loss"
MEASURED = (
    ("log", (PRIOR, FOR_LOG, f"{FOR_LOG}, to likely rates", FOR_BRIER)),
    ("brier", (PRIOR, FOR_LOG, FOR_BRIER, "additive", f"{FOR_BRIER}, to likely rates")),
)


class Found(NamedTuple):
    """Losses before adjustment, their changes, and how often ``advise`` recommends each procedure."""

    before: dict[str, float]
    change: dict[tuple[str, str], np.ndarray]  # by loss and procedure, one number per batch
    advice: Counter[str]


def found(population: Population) -> Found:
    """Apply all procedures to many batches of a population."""
    before: dict[str, list[float]] = {loss: [] for loss, _ in MEASURED}
    change: dict[tuple[str, str], list[float]] = {(loss, name): [] for loss, names in MEASURED for name in names}
    advice: Counter[str] = Counter()
    for seed in range(BATCHES):
        rng = np.random.default_rng(seed)
        batch = population.change(drawn(rng), rng)
        p, rates = predicted(batch.x, population.times), br.theory.class_rates(batch.y, 3)
        compared = br.compare(p, batch.y, rates, OLD, n_bootstrap=1).as_dict()
        for loss, name, mean, moved in zip(
            *(compared[key] for key in ("loss", "procedure", "mean", "change")), strict=True
        ):
            if name == "as predicted":
                before[loss].append(mean)
            elif (loss, name) in change:
                change[loss, name].append(moved)
        if seed < ADVISED:
            advice[br.advise(p, rates, OLD).procedure] += 1
    means = {loss: float(np.mean(values)) for loss, values in before.items()}
    return Found(means, {key: np.array(values) for key, values in change.items()}, advice)


def cell(changes: np.ndarray, best: float) -> str:
    """The mean change, bold if it is the best, and the share of batches in which the loss increased."""
    harmed = (changes > HARM).mean()
    text = f"{changes.mean():+.4f}" if np.isfinite(changes).all() else "infinite"
    text = f"**{text}**" if text == f"{best:+.4f}" else text
    return f"{text} ({harmed:.0%})" if harmed else text


def by_population(loss: str, names: tuple[str, ...], all_found: list[Found], *, advice: bool = False) -> str:
    shown = [name.replace("brier loss", "the Brier score") for name in names]
    heads = ["what changed", "before", *shown, *(["`advise`"] if advice else [])]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for population, it in zip(POPULATIONS, all_found, strict=True):
        best = min(0.0, *(it.change[loss, name].mean() for name in names))
        cells = [f"{it.before[loss]:.4f}", *(cell(it.change[loss, name], best) for name in names)]
        if advice:
            cells.append(", ".join(f"{name} {count / ADVISED:.0%}" for name, count in it.advice.most_common()))
        lines.append(f"| {population.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def by_error() -> str:
    """Table of log loss with wrong rates: adjustment to these rates, and to all rates within 0.1 of them."""
    heads = ["what changed", "rates off by", PRIOR, FOR_LOG, f"{FOR_LOG}, to all rates within 0.1"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for population in (POPULATIONS[0], POPULATIONS[1], POPULATIONS[6]):
        for error in ERRORS:
            changes: list[list[float]] = []
            for seed in range(BATCHES):
                rng = np.random.default_rng(seed)
                batch = population.change(drawn(rng), rng)
                p, rates = predicted(batch.x, population.times), br.theory.class_rates(batch.y, 3)
                sign = 1 if seed % 2 else -1  # too high and too low equally often
                stated = br.shifts.misstated(rates, br.shifts.majority(OLD), sign * error)
                box = br.Rates.between(np.maximum(stated - 0.1, 0), np.minimum(stated + 0.1, 1))
                answers = (br.prior_adjust(p, OLD, stated), br.adjust(p, stated), br.adjust(p, box))
                score = br.losses.Log().score
                changes.append([score(a.probs, batch.y) - score(p, batch.y) for a in answers])
            table = np.array(changes).T
            best = min(0.0, *table.mean(axis=1))
            lines.append(f"| {population.name} | {error:g} | {' | '.join(cell(row, best) for row in table)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", action="store_true", help=f"write the tables into {PAGE}")
    options = parser.parse_args()
    all_found = [found(population) for population in POPULATIONS]
    tables = {
        f"procedures-{loss}": by_population(loss, names, all_found, advice=loss == "log") for loss, names in MEASURED
    } | {"procedures-errors": by_error()}
    for name, text in tables.items():
        print(text, end="\n\n")
        if options.docs:
            fill(PAGE, name, text)


if __name__ == "__main__":
    main()
