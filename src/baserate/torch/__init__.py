"""Adjustments as modules of torch. The package is imported on demand, since it needs torch."""

from baserate.torch.layer import ShiftLayer

__all__ = ["ShiftLayer"]
