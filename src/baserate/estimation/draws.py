"""The order in which labelled rows are looked at, and what was known before each of them.

A bet on a label must depend only on labels that were seen before. Rows are therefore put into a random order. Rows that
were drawn separately from strata are looked at in rounds with rows of all strata, and a bet depends only on the rounds
before.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from baserate.support.arrays import BoolArray, FloatArray, IndexArray


@dataclass(frozen=True, eq=False)
class Draws:
    """Labelled rows in the order in which they are looked at.

    Attributes
    ----------
    rows : int array of shape (m,)
        Row numbers.
    before : int array of shape (m,)
        How many rows were seen before the round of each row. Without strata each row is a round.
    weights : array of shape (m,)
        Share of the stratum among the remaining rows, divided by its share among the rows of this round; 1 without
        strata. 0 for rows of strata that are labelled completely: there is nothing to bet on.
    largest_weights : array of shape (m,)
        The largest weight in the round of each row.
    """

    rows: IndexArray
    before: IndexArray
    weights: FloatArray
    largest_weights: FloatArray

    def first(self, n_labels: int) -> Draws:
        """The first labelled rows."""
        at = slice(n_labels)
        return Draws(self.rows[at], self.before[at], self.weights[at], self.largest_weights[at])

    @property
    def ends_round(self) -> BoolArray:
        """Whether each row is the last one of its round."""
        return np.append(self.before[1:] != self.before[:-1], True)


def random_order(rows: IndexArray, strata: IndexArray | None = None) -> Draws:
    """Rows in a random order, the same for the same set of rows in whatever order they were passed.

    Parameters
    ----------
    rows : int array of shape (m,)
        The rows that were drawn at random, from all rows or from each stratum.
    strata : int array of shape (n,), optional
        The number of the stratum of each row of the batch.
    """
    # The seed is the set of rows. A fixed seed would give a fixed permutation of the sorted rows, under which the first
    # row is not a random one: it would be, say, always the fifth of the sorted rows.
    rows = np.sort(rows)
    rng = np.random.default_rng(rows)
    shuffled = rng.permutation(rows)
    if strata is None:
        ones = np.ones(len(rows))
        return Draws(shuffled, np.arange(len(rows)), ones, ones)
    return _in_rounds(shuffled, strata)


def _in_rounds(rows: IndexArray, strata: IndexArray) -> Draws:
    """Spread the rows of each stratum evenly over as many rounds as the smallest number of rows allows."""
    sizes, drawn = np.bincount(strata), np.bincount(strata[rows], minlength=int(strata.max()) + 1)
    complete = (drawn == sizes)[strata[rows]]
    first, rest = rows[complete], rows[~complete]
    codes = strata[rest]
    n_rounds = int(drawn[drawn < sizes].min()) if len(rest) else 0
    place = np.zeros(len(rest), dtype=np.intp)  # the place of each row among those of its stratum
    for code in np.unique(codes):
        place[codes == code] = np.arange(drawn[code])
    rounds = place * n_rounds // drawn[codes]
    order = np.argsort(rounds, kind="stable")
    rest, codes, rounds = rest[order], codes[order], rounds[order]
    starts = np.searchsorted(rounds, np.arange(n_rounds + 1))
    before, weights = np.empty(len(rest), dtype=np.intp), np.empty(len(rest))
    left = np.where(drawn < sizes, sizes, 0)
    for start, stop in itertools.pairwise(starts):
        taken = np.bincount(codes[start:stop], minlength=len(sizes))
        share = left / left.sum()
        weights[start:stop] = (share * taken.sum() / np.maximum(taken, 1))[codes[start:stop]]
        before[start:stop] = start
        left = left - taken
    largest = np.maximum.reduceat(weights, starts[:-1])[rounds] if len(rest) else weights
    n_first, zeros = len(first), np.zeros(len(first))
    return Draws(
        np.concatenate([first, rest]),
        np.concatenate([np.zeros(n_first, dtype=np.intp), n_first + before]),
        np.concatenate([zeros, weights]),
        np.concatenate([zeros + 1.0, largest]),
    )
