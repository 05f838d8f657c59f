"""A complete engine in one file, as someone outside this package would write it: predictions in a list of chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np
from support import Array

from baserate.core.contracts import Block, Engine, WrittenBlock
from baserate.inputs.row_source import RowSource
from baserate.inputs.validation import as_weights


class Chunks:
    """Predictions in pieces, as a file or a cluster would hold them."""

    def __init__(self, pieces: list[Any]) -> None:
        self.pieces = pieces


class ChunkEngine(Engine):
    """Runs tasks on one chunk after the other."""

    name = "chunks"
    accepts: type[Chunks] = Chunks
    block: type[Block] = Block

    @classmethod
    def open(cls, source: RowSource) -> Self | None:
        if type(source.probs) is not cls.accepts:
            return None
        n_rows = sum(map(len, source.probs.pieces))
        return cls(source.probs.pieces, as_weights(source.sample_weight, n_rows))

    def __init__(self, pieces: list[Any], weights: Array | None) -> None:
        self.n_rows, self.n_classes = sum(map(len, pieces)), len(pieces[0][0])
        self.pieces, self.weighted = pieces, weights is not None
        self.weights = np.full(self.n_rows, 1 / self.n_rows) if weights is None else weights
        self.rows: list[Any] = []

    def map(self, task: Callable[[Block], Any], block_values: int = 0) -> Iterator[Any]:
        start = 0
        for piece in self.pieces:
            yield task(self.block(piece, self.weights[start : start + len(piece)], start))
            start += len(piece)

    def write(self, task: Callable[[Block], WrittenBlock], block_values: int = 0) -> Iterator[Any]:
        self.rows = []
        for rows, sums in self.map(task):
            self.rows.append(rows)
            yield sums

    def answer(self) -> Array:
        return np.concatenate(self.rows)

    def reopen(self) -> Self:
        return type(self)(self.pieces, self.weights if self.weighted else None)
