"""The layer of a fitted shift: it adjusts as ``apply`` does, before and after export."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import baserate as br
from baserate.errors import BadLoss, BadOption

torch = pytest.importorskip("torch")

P = np.random.default_rng(1).dirichlet([1.0, 2.0, 0.5, 1.0], 200)
NEW = np.random.default_rng(2).dirichlet([0.3, 0.3, 0.3, 0.3], 60)
RATES = [0.2, 0.3, 0.4, 0.1]
EXPORTABLE = ["log", "brier", "spherical", "ranked"]


@pytest.mark.parametrize("loss", EXPORTABLE)
@pytest.mark.parametrize(
    "options", [{}, {"from_logits": True}, {"zeros": 1e-3}, {"bounded": False}, {"rates": [0.5, 0, 0.2, 0.3]}], ids=str
)
def test_the_layer_adjusts_as_apply_does(loss: str, options: dict[str, Any]) -> None:
    rates = options.get("rates", RATES)
    options = {name: value for name, value in options.items() if name != "rates"}
    logits = options.get("from_logits", False)
    result = br.adjust(np.log(P) if logits else P, rates, loss=loss, **options)
    rows = np.log(NEW) + 3 if logits else NEW
    if not options.get("bounded", True):
        rows = P[:60]  # an unbounded adjustment is not defined for every row
    layer = result.to_torch()
    expected = result.apply(rows)
    assert layer(torch.as_tensor(rows)).numpy() == pytest.approx(expected, abs=1e-12)
    single = rows.astype("float32")
    assert layer(torch.as_tensor(single)).dtype == torch.float32
    assert layer(torch.as_tensor(single)).numpy() == pytest.approx(expected, abs=1e-6)
    assert layer.float()(torch.as_tensor(single)).numpy() == pytest.approx(expected, abs=2e-6)
    batches = torch.as_tensor(rows).reshape(3, 20, 4)
    assert result.to_torch()(batches).numpy().reshape(60, 4) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("logits", [False, True])
def test_vectors(logits: bool) -> None:
    p = P[:, 0]
    rows = np.log(p / (1 - p)) if logits else p
    result = br.adjust(rows, 0.3, from_logits=logits)
    assert result.to_torch()(torch.as_tensor(rows)).numpy() == pytest.approx(result.probs, abs=1e-12)


def test_a_network_with_the_layer_can_be_trained_further() -> None:
    network = torch.nn.Sequential(torch.nn.Linear(5, 4), br.adjust(P, RATES).to_torch(from_logits=True).float())
    out = network(torch.ones(7, 5))
    assert out.sum(dim=1).detach().numpy() == pytest.approx(np.ones(7), abs=1e-6)
    out[:, 0].sum().backward()
    assert network[0].weight.grad.abs().sum() > 0
    assert "4 classes, loss='log'" in repr(network)


def test_underflow_and_hard_zeros() -> None:
    layer = br.adjust(P, RATES).to_torch()
    out = layer(torch.tensor([[1.0, 0.0, 0.0, 0.0], [1.0, 1e-45, 1e-40, 0.0]]))
    assert (out[0] == torch.tensor([1.0, 0.0, 0.0, 0.0])).all()
    assert (out[1] > 0).tolist() == [True, True, True, False]


@pytest.mark.parametrize("loss", EXPORTABLE)
def test_torch_export(loss: str) -> None:
    result = br.adjust(P, RATES, loss=loss)
    rows = torch.as_tensor(NEW)
    program = torch.export.export(result.to_torch(), (rows,), dynamic_shapes=({0: torch.export.Dim("n")},))
    assert program.module()(rows[:7]).numpy() == pytest.approx(result.apply(NEW[:7]), abs=1e-12)


@pytest.mark.filterwarnings("ignore")  # of the exporter about itself
@pytest.mark.parametrize("loss", ["log", "brier"])
def test_onnx(loss: str, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    result = br.adjust(P, RATES, loss=loss)
    single = NEW.astype("float32")
    shapes = ({0: torch.export.Dim("n")},)
    torch.onnx.export(
        result.to_torch().float(), (torch.as_tensor(single),), tmp_path / "m.onnx", dynamo=True, dynamic_shapes=shapes,
        verbose=False,
    )  # fmt: skip
    session = runtime.InferenceSession(tmp_path / "m.onnx")
    (out,) = session.run(None, {session.get_inputs()[0].name: single[:9]})
    assert out == pytest.approx(result.apply(single[:9]), abs=1e-6)


def test_what_has_no_layer_says_so() -> None:
    with pytest.raises(BadLoss, match=r"Power\(beta=1.5\) has no closed formula"):
        br.adjust(P, RATES, loss=br.losses.Power(1.5)).to_torch()
    grouped = br.adjust(P, br.Rates.by("site", {"a": RATES}), groups=["a"] * 200)
    with pytest.raises(BadOption, match="shifts of groups"):
        grouped.to_torch()
