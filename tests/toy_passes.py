"""Complete row passes in one file: log loss in plain Python, on blocks that hold lists instead of NumPy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log
from typing import Any, Self

import numpy as np
from toy_engine import ChunkEngine, Chunks

from baserate.core.contracts import Block, DualSums, Engine, RowPasses, SurveySums, WrittenBlock, WrittenSums
from baserate.core.row_model import RowModel


class ListChunks(Chunks):
    """Predictions as lists of rows, each a list of floats."""


class ListBlock(Block):
    def as_numpy(self) -> Block:
        return Block(np.array(self.rows), self.weights, self.start)


class ListEngine(ChunkEngine):
    array_module, accepts, block = "lists", ListChunks, ListBlock


@dataclass(frozen=True, eq=False)
class ListPasses(RowPasses):
    model: RowModel

    name = "lists"

    @classmethod
    def for_rows(cls, model: RowModel, rows: Engine, kernels: str) -> Self | None:
        return cls(model) if rows.array_module == "lists" else None

    def survey(self, block: Block) -> SurveySums:
        w, p = block.weights, np.array(block.rows)
        self.model.reading.check(p, block.start)
        ceiling = sum(weight * -log(min(row)) for row, weight in zip(block.rows, w, strict=True))
        return SurveySums(w @ p, np.zeros(()), np.zeros(()), np.asarray(ceiling), w @ w)

    def reduce(self, block: Block, shift: Any, *, curvature: bool = True) -> DualSums:
        rows, logs = self._adjusted(block.rows, shift)
        w, a = block.weights, np.array(rows)
        curvature_sum = np.diag(w @ a) - (a.T * w) @ a
        return DualSums(w @ logs, w @ np.abs(logs), w @ a, curvature_sum)

    def write(self, block: Block, shift: Any, *, check: bool = False) -> WrittenBlock:
        rows, logs = self._adjusted(block.rows, shift)
        mean = block.weights @ np.array(rows)
        divergence = shift @ mean - block.weights @ logs
        return WrittenBlock(rows, () if check else WrittenSums(divergence, mean, np.zeros(()), mean))

    def _adjusted(self, rows: list[list[float]], shift: Any) -> tuple[list[list[float]], list[float]]:
        scaled = [[p * exp(s) for p, s in zip(row, shift, strict=True)] for row in rows]
        return [[x / sum(row) for x in row] for row in scaled], [log(sum(row)) for row in scaled]
