"""Estimates of class rates that nobody knows, as sets: from validation data, or from a few labelled rows."""

from baserate.estimation.draw_rows import draw_rows
from baserate.estimation.drawn_rows import DrawnRows
from baserate.estimation.estimate import estimate

__all__ = ["DrawnRows", "draw_rows", "estimate"]
