"""Rows in torch tensors. Those on a GPU stay there; those in the memory of the host are shared with NumPy.

CuPy and JAX arrays are exchanged with torch by DLPack, without a copy. Only frameworks that the caller has imported are
looked at, except that CuPy and JAX arrays import torch. JAX arrays on the CPU are read by NumPy if it is not installed.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from baserate.core.contracts import Block, Engine, WrittenBlock
from baserate.core.sampling import NEIGHBOURS, SEED
from baserate.engines.memory import MemoryEngine
from baserate.errors import BadGroups, BadOption, BadProbabilities, BadWeights, Option, OutOfDeviceMemory
from baserate.inputs.group_combinations import Combinations
from baserate.inputs.reading import NUMBERED, Naming
from baserate.inputs.row_source import RowSource
from baserate.inputs.validation import as_matrix, as_weights
from baserate.inputs.vectors import LARGEST_EXCESS, VectorNaming, check_probabilities
from baserate.support.answer_types import AnswerTypes
from baserate.support.arrays import BLOCK_VALUES, FloatArray, rows_per_block

T = TypeVar("T")

_FLOATS = ("float64", "float32", "float16", "bfloat16")
_WORTH_SAMPLING = 50_000_000  # Values. A pass over fewer takes no longer than the steps of the search between passes.
_LARGEST_SAMPLE = 1_600_000  # Rows. A more accurate start would not save a pass.
_HALF_TOLERANCE = 1e-2  # How far the sum of a row of bfloat16 may be from 1.


class Tensors(NamedTuple):
    """Predictions as a tensor.

    Attributes
    ----------
    values : torch.Tensor
        Without its gradient.
    back : callable
        Converts a tensor to the kind of array that the caller passed.
    """

    values: Any
    back: Callable[[Any], Any]


def as_tensors(probs: Any) -> Tensors | None:
    """A torch tensor, a CuPy array or a JAX array as a tensor; None for anything else."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(probs, torch.Tensor):
        return Tensors(probs.detach(), lambda tensor: tensor)
    library = type(probs).__module__.partition(".")[0].removesuffix("lib")
    if library not in ("cupy", "jax") or library not in sys.modules or not hasattr(probs, "__dlpack__"):
        return None
    try:
        import torch as imported
    except ImportError:
        if library == "jax" and all(device.platform == "cpu" for device in probs.devices()):
            return None  # NumPy reads it, and the adjusted rows are a NumPy array
        raise ImportError(
            f'{library} arrays on a GPU need torch: pip install "baserate[torch]"; or pass a NumPy array'
        ) from None
    if library == "cupy":
        return Tensors(imported.from_dlpack(probs), sys.modules["cupy"].from_dlpack)
    from jax import dlpack

    return Tensors(imported.from_dlpack(probs), dlpack.from_dlpack)


def is_shared_with_numpy(tensor: Any) -> bool:
    """Whether NumPy can read the memory of a tensor, so that everything for arrays is available."""
    return bool(tensor.device.type == "cpu" and str(tensor.dtype) != "torch.bfloat16")


class HostTensorEngine(MemoryEngine):
    """A tensor in the memory of the host. NumPy reads it without a copy, and the adjusted rows are a tensor again."""

    name = "torch, memory"

    @classmethod
    def open(cls, source: RowSource) -> Self | None:  # type: ignore[override]  # None if it is something else
        found = as_tensors(source.probs)
        if found is None or not is_shared_with_numpy(found.values):
            return None
        _check_kind(found.values, source)
        weights = as_tensors(source.sample_weight)
        if weights is not None:
            _check_device(weights.values, found.values)
            source = replace(source, sample_weight=weights.values.numpy())
        rows = super().open(replace(source, probs=found.values.numpy()))
        rows._back, rows._vector, rows.form = found.back, rows.form, None
        return rows

    _back: Callable[[Any], Any]
    _vector: Any = None

    def answer(self) -> Any:
        import torch

        rows = super().answer()
        if self._vector is not None:
            rows = self._vector.wrap(rows)
        return self._back(torch.from_numpy(np.asarray(rows)))

    def reopen(self) -> Self:
        again = super().reopen()
        again._back, again._vector = self._back, self._vector
        return again


@dataclass(frozen=True)
class TensorBlock(Block):
    """Some rows of a tensor, with weights that are a tensor as well.

    Attributes
    ----------
    equal_weight : float or None
        The weight of every row, if they are equal.
    are_logits : bool
    """

    equal_weight: float | None = None
    are_logits: bool = False

    def as_numpy(self) -> Block:
        rows = self.rows
        if str(rows.dtype) == "torch.bfloat16":  # which NumPy does not have
            rows = rows.double()
            if not self.are_logits:  # divided by their sums, because float64 rows have to sum to 1 more precisely
                sums = rows.sum(dim=1, keepdim=True)
                rows = rows.where((sums - 1.0).abs() > _HALF_TOLERANCE, rows / sums)
        weights: Any = self.weights
        return Block(rows.cpu().numpy(), weights.cpu().numpy(), self.start)

    def split_at(self, first: int, n_rows: int) -> Iterator[Block]:
        """Pieces of at most ``n_rows`` rows, from a row on."""
        rest = replace(self, rows=self.rows[first:], weights=self.weights[first:], start=self.start + first)
        return replace(rest, scratch=None).split(n_rows)


class TensorEngine(Engine):
    """A tensor on a GPU. Rows, weights and adjusted rows stay there; only sums are copied to the host.

    Parameters
    ----------
    raw : torch.Tensor of shape (n, k)
    weights : torch.Tensor of shape (n,), optional
        In float64; they sum to 1. By default all are equal.
    answer_types : AnswerTypes
    """

    name = "torch"
    array_module = "torch"
    in_memory = True

    @classmethod
    def open(cls, source: RowSource) -> Self | None:
        found = as_tensors(source.probs)
        if found is None:
            return None
        tensor = found.values
        _check_kind(tensor, source)
        shape = tuple(tensor.shape)
        one_column = (source.one_column or not source.fitted) and (len(shape) == 1 or shape[1:] == (1,))
        naming = VectorNaming() if one_column else NUMBERED
        types = AnswerTypes.of_array(source.answer_dtype or np.dtype(f"f{tensor.element_size()}"))
        with _memory_errors(source.argument):
            if one_column:
                tensor = _two_columns(tensor.reshape(-1), source, naming)
                types = AnswerTypes.of_columns([types.common])
            else:
                stand_in = np.broadcast_to(np.zeros(()), shape)
                tensor = tensor.reshape(as_matrix(stand_in, what=source.argument, one_row=source.fitted).shape)
            rows = cls(tensor, _weights(source.sample_weight, tensor), types)
        rows.naming, rows.one_column, rows._shape, rows._back = naming, one_column, shape, found.back
        rows._are_logits, rows._argument = source.from_logits, source.argument
        return rows

    def __init__(self, raw: Any, weights: Any, answer_types: AnswerTypes) -> None:
        self.n_rows, self.n_classes = raw.shape
        self.weighted, self.answer_types = weights is not None, answer_types
        self.device, self.on_host = raw.device, raw.device.type == "cpu"
        self._raw, self._weights = raw, weights
        self._answer: Any = None
        self._shape: tuple[int, ...] = tuple(raw.shape)
        self._back: Callable[[Any], Any] = lambda tensor: tensor
        self._are_logits, self._argument = False, "probs"

    def map(self, task: Callable[[Block], T], block_values: int = BLOCK_VALUES) -> Iterator[T]:
        self.progress.begin("reading", self.n_rows)
        with _memory_errors(self._argument):
            for block in self._blocks(rows_per_block(self.n_classes, block_values)):
                yield task(block)
                self.progress.rows(len(block.weights))

    def write(self, task: Callable[[Block], WrittenBlock], block_values: int = BLOCK_VALUES) -> Iterator[Any]:
        import torch

        with _memory_errors(self._argument):
            if self._answer is None:
                dtype = getattr(torch, self.answer_types.common)
                self._answer = torch.empty_like(self._raw, dtype=dtype)  # in the memory order of the input

        def keep(block: Block) -> Any:
            rows, sums = task(block)
            if rows is not block.scratch:
                self._answer[block.start : block.start + len(rows)] = rows
            return sums

        return self.map(keep, block_values)

    def answer(self) -> Any:
        import torch

        rows = self._answer
        if self.one_column:
            assert self.answer_types.columns is not None
            rows = rows[:, 1].to(getattr(torch, self.answer_types.columns[0]))
        return self._back(rows.reshape(self._shape))

    def reopen(self) -> Self:
        again = type(self)(self._raw, self._weights, self.answer_types)
        again.naming, again.one_column, again._shape, again._back = (
            self.naming,
            self.one_column,
            self._shape,
            self._back,
        )
        again._are_logits, again._argument = self._are_logits, self._argument
        return again

    def sample(self, n_rows: int) -> TensorEngine | None:
        import torch

        if self.n_values < _WORTH_SAMPLING:
            return None
        n_places = max(min(n_rows, _LARGEST_SAMPLE) // NEIGHBOURS, 1)
        stretch = self.n_rows / n_places
        # Drawn on the device: millions of numbers take long to copy.
        generator = torch.Generator(self.device).manual_seed(SEED)
        places = torch.rand(n_places, generator=generator, device=self.device, dtype=torch.float64)
        places = torch.arange(n_places, device=self.device) * stretch + places * (stretch - NEIGHBOURS)
        chosen = (places.long()[:, None] + torch.arange(NEIGHBOURS, device=self.device)).reshape(-1)
        weights = None if self._weights is None else self._weights[chosen]
        if weights is not None:
            total = float(weights.sum())
            if total == 0:
                return None
            weights = weights / total
        return TensorEngine(self._raw[chosen], weights, self.answer_types)

    def group_combinations(self) -> Combinations:
        raise BadGroups(f"rates per group are not available for tensors on a GPU; pass {self._argument}.cpu()")

    @cached_property
    def _all_weights(self) -> Any:
        """The weights of all rows; equal ones share one number."""
        import torch

        if self._weights is not None:
            return self._weights
        equal = torch.full((1,), 1.0 / self.n_rows, dtype=torch.float64, device=self.device)
        return equal.expand(self.n_rows)

    def _blocks(self, block_rows: int) -> Iterator[Block]:
        equal = 1.0 / self.n_rows if self._weights is None else None
        whole = TensorBlock(self._raw, self._all_weights, 0, self._answer, None, equal, self._are_logits)
        return iter([whole]) if block_rows >= self.n_rows else whole.split(block_rows)


@contextlib.contextmanager
def _memory_errors(argument: str) -> Iterator[None]:
    """A context in which errors of a GPU without memory say what to do."""
    try:
        yield
    except RuntimeError as error:
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(error, torch.OutOfMemoryError):
            raise
        first = str(error).partition(". ")[0]
        raise OutOfDeviceMemory(
            f"the memory of the GPU is too small ({first}). The adjusted rows need as much memory as {argument}, "
            f"which was not changed; free memory, pass float32, or pass {argument}.cpu()"
        ) from error


def _check_kind(tensor: Any, source: RowSource) -> None:
    """Raise if a tensor cannot hold predictions, or if an option is not for tensors."""
    what, dtype = source.argument, str(tensor.dtype).removeprefix("torch.")
    if source.columns is not None:
        option = Option("columns")
        raise BadOption(f"{option}= selects columns of a dataframe, but {what} is a tensor", options=[option])
    if str(tensor.layout) != "torch.strided":
        raise BadProbabilities(f"{what} is a sparse tensor; pass {what}.to_dense()")
    if dtype not in _FLOATS:
        raise BadProbabilities(
            f"{what} is a tensor of {dtype}; pass floating-point numbers, such as {what}.float(), or .double()"
        )
    if tensor.device.type in ("mps", "meta"):
        raise BadProbabilities(f"tensors on the device {tensor.device} have no float64; pass {what}.cpu()")


def _check_device(weights: Any, tensor: Any) -> None:
    if weights.device != tensor.device:
        raise BadWeights(
            f"sample_weight is on the device {weights.device}, but the predictions are on {tensor.device}; pass "
            "sample_weight.to(probs.device)"
        )


def _weights(sample_weight: Any, tensor: Any) -> Any:
    """Weights on the device that sum to 1, or None for equal weights."""
    import torch

    found = as_tensors(sample_weight)
    if sample_weight is None:
        return None
    if found is None:  # an array or a list
        host: FloatArray | None = as_weights(sample_weight, len(tensor))
        return torch.as_tensor(host, device=tensor.device)
    _check_device(found.values, tensor)
    if tuple(found.values.shape) != (len(tensor),) or found.values.dtype.is_complex:
        return as_weights(found.values.cpu().numpy(), len(tensor))  # which raises
    w = found.values.to(torch.float64)
    if not bool((torch.isfinite(w) & (w >= 0)).all() & w.any()):
        return as_weights(w.cpu().numpy(), len(tensor))  # which raises
    w = w / w.max()
    return w / w.sum()


def _two_columns(p: Any, source: RowSource, naming: Naming) -> Any:
    """The probabilities, or logits, of both classes; see :func:`baserate.inputs.vectors.two_columns`."""
    import torch

    if not len(p):
        raise BadProbabilities(f"{source.argument} is empty")
    p = p.to(torch.float64)
    if source.from_logits:
        return torch.stack([(-p).clamp_max(0), p.clamp_max(0)], dim=1)
    if not bool(((p >= 0) & (p <= 1 + LARGEST_EXCESS)).all()):
        check_probabilities(p.cpu().numpy(), naming)
    second = p.clamp_max(1)
    return torch.stack([1.0 - second, second], dim=1)
