"""Registry of losses by name. Registered losses can be saved and loaded, and the shared loss tests run on them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, TypeVar

from baserate.errors import BadLoss
from baserate.losses.base import Loss

_BY_NAME: dict[str, type[Loss]] = {}
_WITHOUT_PARAMETERS: dict[str, type[Loss]] = {}  # losses that a name alone specifies

L = TypeVar("L", bound=type[Loss])


def register(cls: L) -> L:
    """Class decorator that registers a loss under its ``name``."""
    known = _BY_NAME.get(cls.name)
    if known is not None and known.__qualname__ != cls.__qualname__:
        raise BadLoss(
            f"the loss name {cls.name!r} is already used by {known.__qualname__}; give {cls.__qualname__} another name"
        )
    _BY_NAME[cls.name] = cls
    if not _needs_arguments(cls):
        _WITHOUT_PARAMETERS[cls.name] = cls
    return cls


def registered() -> list[type[Loss]]:
    """All registered loss classes."""
    return list(_BY_NAME.values())


def as_loss(loss: str | Loss) -> Loss:
    """Convert a ``loss`` argument, a name or a loss, to a loss."""
    if isinstance(loss, str) and loss in _WITHOUT_PARAMETERS:
        return _WITHOUT_PARAMETERS[loss]()
    if isinstance(loss, Loss):
        return loss
    known = ", ".join(map(repr, _WITHOUT_PARAMETERS))
    if isinstance(loss, type) and issubclass(loss, Loss):
        raise BadLoss(f"loss is the class {loss.__name__}; pass an instance, such as {loss.__name__}(...)")
    if isinstance(loss, str) and loss in _BY_NAME:
        raise BadLoss(f"the loss {loss!r} needs parameters; pass br.losses.{_BY_NAME[loss].__name__}(...)")
    raise BadLoss(f"unknown loss {loss!r}; pass one of {known}, or an object from br.losses")


def _needs_arguments(cls: type[Loss]) -> bool:
    parameters = list(inspect.signature(cls).parameters.values())
    return any(p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)


def to_json(loss: Loss) -> dict[str, Any]:
    """The loss as plain JSON values."""
    return {"name": loss.name, **loss.params()}


def from_json(fields: Mapping[str, Any]) -> Loss:
    """Rebuild a loss from the output of :func:`to_json`."""
    params = dict(fields)
    name = params.pop("name", None)
    if name not in _BY_NAME:
        raise BadLoss(
            f"unknown loss {name!r}; the registered losses are {', '.join(sorted(_BY_NAME))}. "
            "If it is your own loss, import the module that registers it first"
        )
    return _BY_NAME[name].from_params(params)
