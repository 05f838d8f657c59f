"""Losses by name: a registered loss can be saved and loaded, and the battery of tests runs on it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, TypeVar

from baserate.errors import BadLoss
from baserate.losses.base import Loss

_BY_NAME: dict[str, type[Loss]] = {}
_BY_WORD: dict[str, type[Loss]] = {}  # those that need no parameter, so that their name says all

L = TypeVar("L", bound=type[Loss])


def register(cls: L) -> L:
    """Class decorator that makes a loss known by its ``name``."""
    known = _BY_NAME.get(cls.name)
    if known is not None and known.__qualname__ != cls.__qualname__:
        raise BadLoss(f"the name {cls.name!r} is taken by {known.__qualname__}; give {cls.__qualname__} another")
    _BY_NAME[cls.name] = cls
    if not _needs_arguments(cls):
        _BY_WORD[cls.name] = cls
    return cls


def registered() -> list[type[Loss]]:
    """Every loss class that is known."""
    return list(_BY_NAME.values())


def as_loss(loss: str | Loss) -> Loss:
    """A loss from its name, or the loss itself."""
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str) and loss in _BY_WORD:
        return _BY_WORD[loss]()
    hint = ""
    if isinstance(loss, type) and issubclass(loss, Loss):
        hint = f"; pass an instance, {loss.__name__}(...), not the class"
    elif isinstance(loss, str) and loss in _BY_NAME:
        hint = f"; it needs parameters, so pass br.losses.{_BY_NAME[loss].__name__}(...)"
    raise BadLoss(f"unknown loss {loss!r}{hint}; use one of {', '.join(map(repr, _BY_WORD))} or an object of br.losses")


def _needs_arguments(cls: type[Loss]) -> bool:
    parameters = list(inspect.signature(cls).parameters.values())
    return any(p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)


def to_json(loss: Loss) -> dict[str, Any]:
    """A loss as plain JSON values."""
    return {"name": loss.name, **loss.params()}


def from_json(fields: Mapping[str, Any]) -> Loss:
    """The loss that :func:`to_json` described."""
    params = dict(fields)
    name = params.pop("name", None)
    if name not in _BY_NAME:
        raise BadLoss(
            f"unknown loss {name!r}; known are {', '.join(sorted(_BY_NAME))}. Import the module that registers it"
        )
    return _BY_NAME[name].from_params(params)
